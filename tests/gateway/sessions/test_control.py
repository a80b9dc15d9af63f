"""The control plane opens, shows, seals, verifies and closes episodes, for its own credential alone."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from rollouthub.gateway.sessions.service import HubService
from rollouthub.gateway.sessions.service_rules import ServiceRules
from rollouthub.gateway.sessions.sessions_control import ServiceControl
from rollouthub.hosting.server.control_socket import control_guard, control_socket
from rollouthub.http.listener import listening
from tests.gateway.sessions.front import call, front, rpc

TOKEN = "control-canary-77aa01"


class ServiceHarness:
    """A client of the control plane."""

    def __init__(self, hub: HubService, http: aiohttp.ClientSession, url: str) -> None:
        self.hub, self.http, self.url = hub, http, url

    async def ask(self, method: str, path: str, body: object = None, token: str = TOKEN) -> tuple[int, Any]:
        """One call; status and JSON."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.http.request(
            method, self.url + path, data=None if body is None else json.dumps(body), headers=headers
        ) as response:
            text = await response.text()
        return response.status, json.loads(text) if text.startswith("{") else text

    async def open(self, **request: object) -> Any:
        """Open an episode; its ticket."""
        status, ticket = await self.ask("POST", "/v1/episodes", request)
        assert status == 200, ticket
        return ticket


@asynccontextmanager
async def harness(
    directory: Path, *, rules: ServiceRules | None = None, **request: Any
) -> AsyncGenerator[ServiceHarness]:
    """A service with its control plane."""
    with control_socket("127.0.0.1:0") as (bound, url):
        async with front(directory, rules=rules, **request) as hub:
            control = ServiceControl(hub, TOKEN, control_guard(url))
            async with listening(control, bound), aiohttp.ClientSession() as http:
                yield ServiceHarness(hub, http, url)


async def test_an_episode_goes_from_open_to_verified(tmp_path: Path) -> None:
    async with harness(tmp_path / "run", model="mock/say?text=hi") as made:
        ticket = await made.open(environment="tally", task="test/4", seed=3)
        assert (ticket["task"], ticket["seed"], ticket["model"]) == ("test/4", 3, "mock/say?text=hi")
        assert ticket["llm_url"].endswith(f"/llm/{ticket['api_key']}/v1")
        assert ticket["messages"][0]["content"] == "count"
        await call(ticket["agent_url"], "add")
        where = f"/v1/episodes/{ticket['id']}"
        status, listed = await made.ask("GET", "/v1/episodes")
        assert (status, [each["id"] for each in listed["episodes"]]) == (200, [ticket["id"]])
        assert TOKEN not in json.dumps(listed)
        assert ticket["api_key"] not in json.dumps(listed)
        assert (await made.ask("GET", where))[1]["state"] == "open"
        reports: list[Any] = []

        async def verify() -> None:
            reports.append(await made.ask("POST", f"{where}/verify"))

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(verify)
        assert reports[0] == reports[1]
        status, report = reports[0]
        assert (status, report["outcome"], report["score"]["reward"]) == (200, "scored", 0.5)
        for path in ("/verify", "/seal"):
            assert (await made.ask("POST", where + path))[1]["score"] == report["score"]
        assert (await made.ask("DELETE", where))[1]["outcome"] == "scored"


async def test_events_tell_what_happens_to_the_end(tmp_path: Path) -> None:
    async with harness(tmp_path / "run") as made:
        ticket = await made.open()
        where = f"/v1/episodes/{ticket['id']}"
        kinds: list[str] = []

        async def watch() -> None:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with made.http.get(made.url + where + "/events", headers=headers) as response:
                kinds.extend([line[7:-1].decode() async for line in response.content if line.startswith(b"event: ")])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await call(ticket["agent_url"], "add")
            await made.ask("DELETE", where)
        assert kinds[0] == "setup"
        assert kinds.index("opened") < kinds.index("tool")
        assert kinds[-1] == "ended"
        assert (await made.ask("GET", where + "/events"))[0] == 409


async def test_sealing_and_closing_end_an_episode(tmp_path: Path) -> None:
    async with harness(tmp_path / "run") as made:
        first, second = await made.open(), await made.open()
        status, sealed = await made.ask("POST", f"/v1/episodes/{first['id']}/seal")
        assert (status, sealed["state"] in ("closing", "ended")) == (200, True)
        status, closed = await made.ask("DELETE", f"/v1/episodes/{second['id']}")
        assert (status, closed["outcome"], closed["score"]) == (200, "cancelled", None)


async def test_what_is_served_and_its_tasks_are_listed_without_their_secrets(tmp_path: Path) -> None:
    async with harness(tmp_path / "run") as made:
        _, listed = await made.ask("GET", "/v1/environments")
        assert [(each["name"], each["split"]) for each in listed["environments"]] == [("tally", "test")]
        _, page = await made.ask("GET", "/v1/environments/tally/tasks?limit=2")
        assert [card["public"]["id"] for card in page["cards"]] == ["test/0", "test/1"]
        assert '"reference"' not in json.dumps(page)
        _, page = await made.ask("GET", f"/v1/environments/tally/tasks?limit=1&cursor={page['next_cursor']}")
        assert page["cards"][0]["public"]["id"] == "test/2"
        assert (await made.ask("GET", "/v1/environments/chess/tasks"))[0] == 404


async def test_only_the_control_credential_opens_the_control_plane(tmp_path: Path) -> None:
    async with harness(tmp_path / "run", model="mock/say?text=hi") as made:
        ticket = await made.open()
        for token in ("", ticket["api_key"], TOKEN[:-1]):
            for method, path in (("GET", "/v1/episodes"), ("POST", f"/v1/episodes/{ticket['id']}/verify")):
                assert (await made.ask(method, path, token=token))[0] == 401
        assert (await made.ask("GET", "/health", token=""))[0] == 200
        base = made.hub.gateway.base_url
        assert (await rpc(made.http, f"{base}/e/{TOKEN}/mcp", "tools/list"))[0] == 404
        body = {"messages": [{"role": "user", "content": "hi"}]}
        async with made.http.post(f"{base}/llm/{TOKEN}/v1/chat/completions", json=body) as response:
            assert response.status == 401
        async with made.http.get(f"{base}/v1/episodes", headers={"Authorization": f"Bearer {TOKEN}"}) as response:
            assert response.status == 404
        assert (await made.ask("GET", f"/v1/episodes/{ticket['id']}"))[1]["state"] == "open"


async def test_what_makes_no_sense_is_refused_with_its_reason(tmp_path: Path) -> None:
    async with harness(tmp_path / "run", rules=ServiceRules(most_open=1)) as made:
        for body, status in (
            ({"enviroment": "tally"}, 400),
            ({"environment": "chess"}, 404),
            ({"task": "test/none"}, 404),
            ({"limits": {"max_cost": 1e9}, "ttl_seconds": -1}, 400),
        ):
            assert (await made.ask("POST", "/v1/episodes", body))[0] == status, body
        await made.open()
        status, refusal = await made.ask("POST", "/v1/episodes", {})
        assert (status, refusal["error"]["retryable"]) == (429, True)
        for method, path, status in (
            ("GET", "/v1/episodes/none", 404),
            ("POST", "/v1/episodes/none/verify", 404),
            ("PUT", "/v1/environments", 405),
            ("GET", "/nothing", 404),
        ):
            assert (await made.ask(method, path))[0] == status, path


async def test_metrics_count_episodes_and_calls(tmp_path: Path) -> None:
    async with harness(tmp_path / "run") as made:
        ticket = await made.open()
        await call(ticket["agent_url"], "add")
        _, text = await made.ask("GET", "/metrics")
        assert "rollouthub_episodes_open 1" in text
        assert 'rollouthub_tool_calls_total{outcome="ok"} 1' in text
