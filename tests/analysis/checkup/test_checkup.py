"""The doctor tries a model, an environment's tasks, a cluster and this machine, each with its own cause."""

import json
import socket
from pathlib import Path

import pytest
from aiohttp import web

from rollouthub.analysis.checkup.check_result import Finding
from rollouthub.analysis.checkup.machine_speed import machine_findings
from rollouthub.analysis.checkup.model_check import model_findings
from rollouthub.analysis.checkup.ray_check import ray_findings
from rollouthub.analysis.checkup.task_check import task_findings
from rollouthub.engine.run_request import RunRequest
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from tests.models.servers import mock_server, serving


async def tried(name: str, base_url: str | None = None, **keys: str) -> dict[str, Finding]:
    """What the doctor finds about a model."""
    config = ModelConfig(name=name, base_url=base_url)
    return {finding.name: finding async for finding in model_findings(config, Credentials(keys))}


async def test_a_model_that_works_says_how_fast_and_whether_it_gives_token_ids() -> None:
    async with mock_server("mock/solver") as address:
        found = await tried("hosted_vllm/served", address)
    assert {name: finding.state for name, finding in found.items()} == {
        "server": "ok",
        "model": "ok",
        "model call": "ok",
        "token ids and logprobs": "ok",
        "tool calls": "missing",
    }


async def test_a_wrong_name_is_met_with_the_nearest_one() -> None:
    async with mock_server("mock/solver") as address:
        found = await tried("hosted_vllm/servd", address)
    assert "did you mean 'served'" in found["model"].says


async def test_nothing_listening_a_name_without_address_and_no_tls_are_three_things() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        refused = await tried("hosted_vllm/m", f"http://127.0.0.1:{port}")
    assert (refused["server"].state, list(refused)) == ("broken", ["server"])
    unknown = await tried("hosted_vllm/m", "http://model.invalid:8000")
    assert "cannot be resolved" in unknown["server's name"].says
    async with serving(refusing(200)) as address:
        plain = await tried("hosted_vllm/m", address.replace("http://", "https://"))
    assert "http:// rather than https://" in plain["server's TLS"].mend


async def test_a_refused_key_names_its_variable_and_not_its_value() -> None:
    async with serving(refusing(401)) as address:
        found = await tried("hosted_vllm/m", address, HOSTED_VLLM_API_KEY="hunter2222")
    assert "HOSTED_VLLM_API_KEY" in found["model"].says
    assert "hunter2222" not in json.dumps([finding.as_json() for finding in found.values()])


def refusing(status: int) -> web.Application:
    """A server that gives everything this answer."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, text="{}")

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    return app


async def test_tasks_are_counted_and_bad_and_equal_ones_named(tmp_path: Path) -> None:
    rows = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in (1, 2, 2)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, {"question": "alone"}]))
    request = RunRequest(environments=("gsm8k",), set={"data": str(tmp_path / "rows.jsonl")})
    found = {finding.name: finding async for finding in task_findings(request, Credentials())}
    assert found["tasks"].says.startswith("3 of the split 'test'")
    assert (found["bad rows"].state, found["equal tasks"].state) == ("broken", "poor")
    assert "rows.jsonl:4" in found["bad rows"].says


async def test_an_environment_that_cannot_be_opened_says_why() -> None:
    request = RunRequest(environments=("gsm8k",), set={"data": "gone.jsonl"})
    found = [finding async for finding in task_findings(request, Credentials())]
    assert found[-1].state == "broken"
    assert "gone.jsonl" in found[-1].says


def test_this_machine_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {finding.name: finding for finding in machine_findings()}
    assert {"cpu", "disk speed", "event loop", "gpu"} <= found.keys()
    assert "ms" in found["disk speed"].says
    assert list(tmp_path.iterdir()) == []


def test_without_an_address_no_cluster_is_joined() -> None:
    assert [finding.name for finding in ray_findings(None)] == ["extra ray"]
