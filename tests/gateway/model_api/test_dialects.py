"""Which dialect is spoken where, and what is said where one cannot be."""

import subprocess
import sys

import pytest

from rollouthub.gateway.model_api.chat_dialect import Chat
from rollouthub.gateway.model_api.dialects import PATHS, dialect_of, make_ready
from rollouthub.plugins.extras import pip_install

WITHOUT = """
import sys
sys.modules["litellm"] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "litellm" else found(name, *rest)
from rollouthub.gateway.model_api.dialect import CallRefused
from rollouthub.gateway.model_api.dialects import dialect_of
print(dialect_of("chat/completions").read(b'{"messages":[{"role":"user","content":"hi"}]}').messages[0].text)
for path, body in (("responses", b'{"input":"hi"}'), ("messages", b'{"messages":[{"role":"user","content":"hi"}]}')):
    try:
        dialect_of(path).read(body)
    except CallRefused as refused:
        print(refused.problem.status, dialect_of(path).problem(refused.problem).decode())
"""


def test_each_path_has_one_dialect_for_all_seats() -> None:
    for path in PATHS:
        assert dialect_of(path) is dialect_of(path) is not None
    assert isinstance(dialect_of("chat/completions"), Chat)
    assert dialect_of("embeddings") is None


@pytest.mark.parametrize("path", [*PATHS, "models"])
async def test_a_dialect_is_made_ready_once(path: str) -> None:
    await make_ready(path)
    await make_ready(path)


def test_without_litellm_chat_is_served_and_the_rest_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=60)
    chat, *others = done.stdout.splitlines()
    assert chat == "hi"
    assert len(others) == 2
    for line in others:
        assert line.startswith("404 ") and pip_install("litellm") in line
