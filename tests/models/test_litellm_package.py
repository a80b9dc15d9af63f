"""What is used of litellm's insides may be gone in another version: less is tidied then, and nothing breaks."""

import sys
from types import SimpleNamespace

from pytest import MonkeyPatch

from rollouthub.models.litellm.http_clients import keep_clients
from rollouthub.models.litellm.package import load_litellm, own_parameters, silence


async def test_clients_that_are_kept_elsewhere_are_left_alone() -> None:
    for litellm in (SimpleNamespace(), SimpleNamespace(in_memory_llm_clients_cache=SimpleNamespace(cache_dict=None))):
        async with keep_clients(litellm):
            pass


async def test_the_arguments_that_steer_litellm_are_known_whether_it_tells_them_or_not(
    monkeypatch: MonkeyPatch,
) -> None:
    await load_litellm("the test")  # whoever imports it first decides how loud it is
    told = own_parameters()
    monkeypatch.setitem(sys.modules, "litellm.types.utils", None)
    untold = own_parameters()
    assert {"api_key", "mock_response", "num_retries"} < untold < told


async def test_a_litellm_without_a_switch_gets_a_blank_one(monkeypatch: MonkeyPatch) -> None:
    await load_litellm("the test")
    monkeypatch.setitem(sys.modules, "litellm._internal_context", None)
    blank = silence()
    token = blank.set(True)
    assert blank.get()
    blank.reset(token)
