"""The control plane: each call's answer, and each way to be refused."""

from urllib.parse import quote

import pytest

from rollouthub.hosting.control_wire import BatchAnswer, Card, EpisodeStatus, GroupVerdict, OpenedEpisode, Verified
from rollouthub.hosting.local.shell_access import OfferedShells
from rollouthub.hosting.server import control_http
from rollouthub.protocols import EnvironmentInfo
from tests.hosting.local.worlds import CANARY, Interview, Market, Workshop, World, host_of
from tests.hosting.server.wire_client import TOKEN, served
from tests.hosting.server.worlds import ODD_IDS, Race, Shelf

EPISODE = {"task": {"id": "one", "split": "test"}}


async def test_the_environment_tells_what_it_is() -> None:
    async with served(Market) as wire:
        answer = await wire.control("GET", "/v1/environment")
        told = EnvironmentInfo.model_validate_json(answer.body)
        assert told == host_of(Market).info.model_copy(update={"isolation": "process"})


@pytest.mark.parametrize("task_id", ODD_IDS)
async def test_a_task_is_found_whatever_its_id(task_id: str) -> None:
    async with served(Shelf) as wire:
        path = f"/v1/tasks/{quote(task_id, safe='')}"
        card = Card.model_validate_json((await wire.control("GET", f"{path}?split=odd&seed=0")).body)
        assert (card.public["id"], card.split) == (task_id, "odd")
        reference = await wire.control("GET", f"{path}/reference?split=odd")
        assert reference.json["messages"][0]["content"] == task_id


async def test_a_task_without_a_reference_has_none_to_give() -> None:
    async with served(Shelf, size=1) as wire:
        answer = await wire.control("GET", "/v1/tasks/0/reference")
        assert (answer.status, answer.problem[0]) == (404, "NotOffered")


@pytest.mark.parametrize("path", ["/v1/tasks/nine", "/v1/tasks/nine/reference", "/v1/tasks/0?split=train"])
async def test_an_unknown_task_or_split_is_named(path: str) -> None:
    async with served(Shelf, size=1) as wire:
        answer = await wire.control("GET", path)
        assert (answer.status, answer.problem[0]) == (404, "UsageError")
        assert "is named" in answer.problem[1]


async def test_an_episode_lives_from_open_to_close() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open(seed=7)
        assert (opened.seed, opened.tools_digest) == (7, host_of(Workshop).info.tools_digest)
        assert opened.seats[0].messages[1].text == "Say yes."
        status = EpisodeStatus.model_validate_json((await wire.control("GET", f"/v1/episodes/{opened.id}")).body)
        assert (status.state, status.expires_at) == ("open", opened.expires_at)
        sealed = (await wire.control("POST", f"/v1/episodes/{opened.id}/seal")).json
        assert sealed["state"] == "sealed"
        for _ in range(2):
            answer = await wire.control(
                "POST", f"/v1/episodes/{opened.id}/verify", {"submission": {"answer": "yes", "stop": "finished"}}
            )
            verified = Verified.model_validate_json(answer.body)
            assert (verified.score and verified.score.reward, verified.status.state) == (1.0, "sealed")
        for _ in range(2):
            closed = EpisodeStatus.model_validate_json((await wire.control("DELETE", f"/v1/episodes/{opened.id}")).body)
            assert closed.state == "closed"
        assert (await wire.control("GET", f"/v1/episodes/{opened.id}")).json["state"] == "closed"


async def test_doors_are_told_to_the_hub_alone_and_only_for_an_episode_that_is_open() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        path = f"/v1/episodes/{opened.id}/doors"
        assert OfferedShells.model_validate_json((await wire.control("GET", path)).body).doors == ()
        assert (await wire.control("GET", path, token=None)).status == 401
        assert (await wire.control("GET", path, token=opened.seats[0].token)).status == 401
        assert (await wire.control("POST", path)).status == 405
        assert (await wire.control("GET", "/v1/episodes/none/doors")).status == 404
        for url in (wire.agent_url + path, opened.seats[0].url.removesuffix("mcp") + "doors"):
            assert (await wire.send("GET", url, headers={"Authorization": f"Bearer {TOKEN}"})).status == 404
        await wire.control("DELETE", f"/v1/episodes/{opened.id}")
        assert (await wire.control("GET", path)).status == 409


async def test_the_first_verdict_stands() -> None:
    async with served(World) as wire:
        path = f"/v1/episodes/{(await wire.open()).id}/verify"
        assert (await wire.control("POST", path)).json["score"]["reward"] == 0.0
        assert (await wire.control("POST", path, {"submission": {"answer": "yes"}})).json["score"]["reward"] == 0.0


async def test_faults_are_told_with_the_status() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        await wire.call(opened.seats[0].url, "crash", kind="sandbox")
        (fault,) = (await wire.control("GET", f"/v1/episodes/{opened.id}")).json["faults"]
        assert (fault["boundary"], fault["phase"]) == ("sandbox", "agent")


async def test_a_broken_episode_is_not_scored_where_that_is_asked_for() -> None:
    async with served(Workshop) as wire:
        broken, whole = await wire.open(), await wire.open()
        await wire.call(broken.seats[0].url, "crash")
        await wire.call(whole.seats[0].url, "submit", answer="yes")
        for episode, reward in ((broken, None), (whole, 1.0)):
            answer = await wire.control("POST", f"/v1/episodes/{episode.id}/verify", {"unless_broken": True})
            verified = Verified.model_validate_json(answer.body)
            assert (verified.score and verified.score.reward) == reward
            assert len(verified.status.faults) == (reward is None)


@pytest.mark.parametrize(
    ("how", "told"), [("nan", "finite"), ("none", "verify returned None"), ("raise", CANARY), ("typed", "away")]
)
async def test_a_verifier_fault_is_typed_and_no_score(how: str, told: str) -> None:
    async with served(World, verify=how) as wire:
        opened = await wire.open()
        for _ in range(2):
            answer = await wire.control("POST", f"/v1/episodes/{opened.id}/verify")
            assert (answer.status, answer.problem[0]) == (500, "VerifierError")
            assert told in answer.problem[1]
            assert answer.json["error"]["retryable"] is (how != "typed")


async def test_deadlines_of_the_request_hold() -> None:
    async with served(World, setup="hang") as wire:
        answer = await wire.control("POST", "/v1/episodes", {**EPISODE, "deadlines": {"setup": 0.05}})
        assert (answer.status, answer.problem[0]) == (500, "TaskError")
    async with served(World, verify="hang") as wire:
        opened = await wire.open(deadlines={"verify": 0.05})
        answer = await wire.control("POST", f"/v1/episodes/{opened.id}/verify")
        assert (answer.status, answer.problem[0]) == (500, "VerifierError")


async def test_a_failed_setup_is_the_environments_fault() -> None:
    async with served(World, setup="raise") as wire:
        answer = await wire.control("POST", "/v1/episodes", EPISODE)
        assert (answer.status, answer.problem[0], answer.json["error"]["retryable"]) == (500, "TaskError", True)


async def test_a_rude_close_is_told() -> None:
    async with served(World, close="raise") as wire:
        opened = await wire.open()
        answer = await wire.control("DELETE", f"/v1/episodes/{opened.id}")
        assert (answer.status, answer.problem[0]) == (500, "TaskError")
        assert "still in use" in answer.problem[1]
        assert (await wire.control("DELETE", f"/v1/episodes/{opened.id}")).json["state"] == "closed"


async def test_a_state_travels_out_and_in() -> None:
    async with served(Market) as wire:
        first = await wire.open()
        await wire.call(first.seats[0].url, "bid", price=5)
        state = (await wire.control("GET", f"/v1/episodes/{first.id}/state")).json["state"]
        assert state == {"bids": [5], "offers": []}
        second = await wire.open(state=state)
        assert "5" in (await wire.call(second.seats[1].url, "look")).text


async def test_what_is_not_offered_is_told_so() -> None:
    async with served(World) as wire:
        opened = await wire.open()
        snapshot = await wire.control("GET", f"/v1/episodes/{opened.id}/state")
        restored = await wire.control("POST", "/v1/episodes", {**EPISODE, "state": {"x": 1}})
        batch = await wire.control("POST", "/v1/verify", {"entries": []})
        params = await wire.control("POST", "/v1/episodes", {**EPISODE, "params": {"speed": 2}})
        answers = (snapshot, restored, batch, params)
        assert [(answer.status, answer.problem[0]) for answer in answers] == [(501, "NotOffered")] * 4


async def test_the_environments_user_replies() -> None:
    async with served(Interview) as wire:
        path = f"/v1/episodes/{(await wire.open()).id}/reply"
        said = {"seat": "agent", "messages": [{"role": "assistant", "content": "because"}]}
        assert (await wire.control("POST", path, said)).json["messages"][0]["content"] == "Why?"
        await wire.control("POST", path, said)
        assert (await wire.control("POST", path, said)).json["messages"] is None
        crash = {"seat": "agent", "messages": [{"role": "assistant", "content": "crash"}]}
        answer = await wire.control("POST", path, crash)
        assert (answer.status, answer.problem[0]) == (500, "TaskError")
        nobody = await wire.control("POST", path, {**said, "seat": "nobody"})
        assert (nobody.status, nobody.problem[0]) == (404, "UsageError")


async def test_an_episodes_reference_is_there_for_the_oracle() -> None:
    async with served(Shelf) as wire:
        opened = await wire.open(task={"id": "plain", "split": "odd"})
        answer = await wire.control("GET", f"/v1/episodes/{opened.id}/reference")
        assert answer.json["messages"][0]["content"] == "plain"


async def test_submissions_are_scored_by_the_batch() -> None:
    async with served(Shelf, size=3) as wire:
        entries = [
            {"task": {"id": "0", "split": "test"}, "submission": {"answer": "0"}},
            {"task": {"id": "1", "split": "test"}, "submission": {"answer": "7"}},
            {"task": {"id": "nine", "split": "test"}, "submission": {"answer": "9"}},
            {"task": {"id": "2", "split": "test"}, "submission": {"answer": "raise"}},
            {
                "task": {"id": "2", "split": "test"},
                "submission": {"transcript": [{"role": "assistant", "content": "2"}]},
            },
        ]
        answer = BatchAnswer.model_validate_json((await wire.control("POST", "/v1/verify", {"entries": entries})).body)
        scores = [verdict.score and verdict.score.reward for verdict in answer.verdicts]
        errors = [verdict.error and verdict.error.type for verdict in answer.verdicts]
        assert scores == [1.0, 0.0, None, None, 1.0]
        assert errors == [None, None, "UsageError", "VerifierError", None]


async def test_a_group_is_scored_together() -> None:
    async with served(Race, size=2) as wire:
        members = [{"sample": number, "submission": {"answer": "x" * number}} for number in (1, 3, 2)]
        lost = [{"sample": 0, "outcome": "agent_failed"}]
        request = {"task": {"id": "1", "split": "test"}, "group": {"members": members, "lost": lost}}
        answer = GroupVerdict.model_validate_json((await wire.control("POST", "/v1/score_group", request)).body)
        assert [score.reward for score in answer.scores] == [0.0, 1.0, 0.0]
        assert answer.scores[0].feedback == "samples 1, 3, 2; lost 0"
        unknown = await wire.control("POST", "/v1/score_group", request | {"task": {"id": "9", "split": "test"}})
        assert (unknown.status, unknown.problem[0]) == (404, "UsageError")
        nobody, twice, below = [], [*members, members[0]], [{**members[0], "sample": -1}]
        for wrong in (nobody, twice, below):
            group = {"members": wrong, "lost": lost}
            refused = await wire.control("POST", "/v1/score_group", request | {"group": group})
            assert (refused.status, refused.problem[0]) == (400, "UsageError")


async def test_a_group_is_not_scored_where_each_sample_is() -> None:
    async with served(Shelf, size=2) as wire:
        request = {
            "task": {"id": "1", "split": "test"},
            "group": {"members": [{"sample": 0, "submission": {"answer": "1"}}]},
        }
        answer = await wire.control("POST", "/v1/score_group", request)
        assert (answer.status, answer.problem[0]) == (501, "NotOffered")


ROUTES = [
    ("GET", "/v1/environment"),
    ("GET", "/v1/tasks"),
    ("GET", "/v1/tasks/one"),
    ("GET", "/v1/tasks/one/reference"),
    ("POST", "/v1/episodes"),
    ("GET", "/v1/episodes/{id}"),
    ("DELETE", "/v1/episodes/{id}"),
    ("GET", "/v1/episodes/{id}/events"),
    ("GET", "/v1/episodes/{id}/state"),
    ("GET", "/v1/episodes/{id}/reference"),
    ("POST", "/v1/episodes/{id}/reply"),
    ("POST", "/v1/episodes/{id}/seal"),
    ("POST", "/v1/episodes/{id}/verify"),
    ("POST", "/v1/verify"),
    ("POST", "/v1/score_group"),
    ("GET", "/metrics"),
    ("GET", "/nowhere"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_route_needs_the_control_credential(method: str, path: str) -> None:
    async with served(World) as wire:
        opened = await wire.open()
        for token in (None, opened.seats[0].token, "", TOKEN + "x", TOKEN[:-1], "ä"):
            answer = await wire.control(method, path.format(id=opened.id), {}, token)
            assert (answer.status, answer.problem[0]) == (401, "CredentialError")
        assert (await wire.control("GET", f"/v1/episodes/{opened.id}")).json["state"] == "open"


async def test_an_agents_token_in_the_control_planes_path_opens_nothing() -> None:
    async with served(World) as wire:
        seat = await wire.seat()
        answer = await wire.send("POST", f"{wire.control_url}/e/{seat.token}/mcp")
        assert answer.status == 401


async def test_health_is_for_everyone_and_tells_nothing() -> None:
    async with served(World) as wire:
        answer = await wire.control("GET", "/health", token=None)
        assert (answer.status, answer.json) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"task": {"id": "one", "split": "test"}, "colour": 1}',
        b'{"task": {"id": "one", "split": "test", "answer": 1}}',
        b'{"task": {"id": "one", "split": "test"}, "seed": "x"}',
        b'{"task": {"id": "one", "split": "test"}, "deadlines": {"verify": -1}}',
        b'{"task": {"id": "one", "split": "test"}, "ttl_seconds": 0}',
    ],
)
async def test_a_malformed_body_is_refused_with_what_is_wrong(body: bytes) -> None:
    async with served(World) as wire:
        answer = await wire.control("POST", "/v1/episodes", body)
        assert (answer.status, answer.problem[0]) == (400, "UsageError")
        assert "the body is no OpenEpisode" in answer.problem[1]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/tasks?color=red", 400),
        ("GET", "/v1/tasks?seed=1&seed=2", 400),
        ("GET", "/v1/tasks?seed=one", 400),
        ("GET", "/v1/tasks?limit=0", 400),
        ("GET", "/v1/tasks?limit=100000", 400),
        ("GET", "/v1/tasks?cursor=abc", 400),
        ("GET", "/v1/tasks?split=nowhere", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/", 404),
        ("GET", "//v1/environment", 404),
        ("POST", "/v1/environment", 405),
        ("DELETE", "/v1/tasks/one", 405),
        ("PUT", "/v1/episodes", 405),
        ("GET", "/v1/episodes/none", 404),
        ("DELETE", "/v1/episodes/none", 404),
        ("POST", "/v1/episodes/none/seal", 404),
        ("POST", "/v1/episodes/none/verify", 404),
        ("GET", "/v1/episodes/none/events", 404),
        ("GET", "/v1/episodes/none/seal", 405),
        ("POST", "/v1/episodes/none/score_group", 404),
    ],
)
async def test_what_makes_no_sense_is_refused(method: str, path: str, status: int) -> None:
    async with served(World) as wire:
        answer = await wire.control(method, path)
        assert answer.status == status
        assert answer.problem[1]


async def test_a_closed_episode_takes_no_more() -> None:
    async with served(World) as wire:
        opened = await wire.open()
        await wire.control("DELETE", f"/v1/episodes/{opened.id}")
        for verb in ("seal", "verify"):
            answer = await wire.control("POST", f"/v1/episodes/{opened.id}/{verb}")
            assert (answer.status, answer.problem[0]) == (409, "TaskError")


async def test_an_oversize_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_http, "MAX_BODY_BYTES", 10_000)
    async with served(World) as wire:
        answer = await wire.control("POST", "/v1/episodes", b"x" * 10_001)
        assert (answer.status, answer.problem[0]) == (413, "UsageError")
        assert await wire.open()


async def test_foreign_hosts_and_origins_are_refused_on_loopback() -> None:
    async with served(World) as wire:
        credential = {"Authorization": f"Bearer {TOKEN}"}
        for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)):
            answer = await wire.send("GET", f"{wire.control_url}/v1/environment", headers=credential | headers)
            assert answer.status == status


async def test_metrics_count_what_happened() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        await wire.call(opened.seats[0].url, "note", text="x")
        await wire.call(opened.seats[0].url, "refuse")
        await wire.control("POST", f"/v1/episodes/{opened.id}/verify")
        text = (await wire.control("GET", "/metrics")).body.decode()
        for line in (
            "rollouthub_episodes_open 1.0",
            "rollouthub_episodes_opened_total 1.0",
            'rollouthub_tool_calls_total{outcome="ok"} 1.0',
            'rollouthub_tool_calls_total{outcome="error"} 1.0',
            'rollouthub_verifications_total{outcome="scored"} 1.0',
            "rollouthub_tool_call_seconds_count 2.0",
        ):
            assert f"{line}\n" in text


async def test_the_control_plane_may_be_a_socket_of_this_user_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("c") / "c.sock"
    async with served(World, control=f"unix:{path}") as wire:
        assert wire.control_url == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o600
        wire.control_url = "http://control"
        answer = await wire.control("POST", "/v1/episodes", EPISODE)
        assert OpenedEpisode.model_validate_json(answer.body)
    assert not path.exists()
