"""The registry's API: what MCP registry clients read, and what publishers may do."""

import hashlib
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rollouthub_registry.server.access_control import Rates
from rollouthub_registry.server.token_hashes import Tokens
from tests.registry.server.publishers import Publisher
from tests.registry.server.serving import Served, bearer, served

OFFICIAL = "io.modelcontextprotocol.registry/official"


async def publish_some(hub: Served, publisher: Publisher) -> str:
    """Two environments, one of them in two versions."""
    token = hub.token()
    for name, version in (("lab/words", "1.0.0"), ("lab/words", "1.1.0"), ("lab/sums", "0.1.0-rc.1")):
        assert (await hub.publish(publisher.offer(name, version), token)).status == 201
    return token


def named(answer: Any) -> list[str]:
    return [f"{each['server']['name']}@{each['server']['version']}" for each in answer.json["servers"]]


async def test_what_was_published_is_downloaded_as_it_was(tmp_path: Path) -> None:
    offer = Publisher(tmp_path).offer("lab/words")
    async with served(tmp_path / "hub") as hub:
        answer = await hub.publish(offer, hub.token())
        assert (answer.status, answer.json["digest"]) == (201, offer.bundle.digest)
        bundle = await hub.get("/envhub/v1/packages/lab/words/latest/bundle")
        assert f"sha256:{hashlib.sha256(bundle.body).hexdigest()}" == offer.bundle.digest
        assert (await hub.get("/envhub/v1/packages/lab/words/1.0.0/statement")).body == offer.envelope
        assert (await hub.get("/envhub/v1/packages/lab/words/1.0.0")).json["quality"]["downloads"] == 1


async def test_an_mcp_registry_client_reads_it(tmp_path: Path) -> None:
    async with served(tmp_path / "hub") as hub:
        await publish_some(hub, Publisher(tmp_path))
        everything = ["lab/sums@0.1.0-rc.1", "lab/words@1.0.0", "lab/words@1.1.0"]
        assert named(await hub.get("/v0.1/servers")) == everything
        first = await hub.get("/v0.1/servers?limit=2")
        assert first.json["metadata"]["count"] == 2
        rest = await hub.get(f"/v0.1/servers?limit=2&cursor={first.json['metadata']['nextCursor']}")
        assert named(first) + named(rest) == everything
        assert "nextCursor" not in rest.json["metadata"]
        assert named(await hub.get("/v0.1/servers?search=ORD&version=latest")) == ["lab/words@1.1.0"]
        assert named(await hub.get("/v0.1/servers/lab%2Fwords/versions")) == ["lab/words@1.1.0", "lab/words@1.0.0"]
        latest = (await hub.get("/v0.1/servers/lab%2Fwords/versions/latest")).json
        assert (latest["server"]["version"], latest["_meta"][OFFICIAL]["isLatest"]) == ("1.1.0", True)


async def test_what_changed_since_a_time_is_told_with_what_was_yanked(tmp_path: Path) -> None:
    async with served(tmp_path / "hub") as hub:
        token = await publish_some(hub, Publisher(tmp_path))
        last = (await hub.get("/v0.1/servers/lab%2Fsums/versions/latest")).json["_meta"][OFFICIAL]["publishedAt"]
        yank = "/envhub/v1/packages/lab/words/1.0.0/yank"
        answer = await hub.ask("POST", yank, json={"reason": "wrong"}, headers=bearer(token))
        assert (answer.status, answer.json["yanked"]) == (200, "wrong")
        assert named(await hub.get("/v0.1/servers")) == ["lab/sums@0.1.0-rc.1", "lab/words@1.1.0"]
        assert "lab/words@1.0.0" in named(await hub.get("/v0.1/servers?include_deleted=true"))
        changed = await hub.get(f"/v0.1/servers?updated_since={last}")
        assert named(changed) == ["lab/sums@0.1.0-rc.1", "lab/words@1.0.0"]
        assert changed.json["servers"][1]["_meta"][OFFICIAL]["status"] == "deleted"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v0.1/servers?limit=0", 400),
        ("/v0.1/servers?limit=many", 400),
        ("/v0.1/servers?cursor=%21%21", 400),
        ("/v0.1/servers?updated_since=yesterday", 400),
        ("/v0.1/servers?include_deleted=perhaps", 400),
        ("/v0.1/servers/lab%2Fnothing/versions", 404),
        ("/v0.1/servers/lab%2Fnothing/versions/1.0.0", 404),
        ("/v0.1/servers/lab/nothing/versions/one", 400),
        ("/envhub/v1/search?sort=magic", 400),
        ("/envhub/v1/packages/%2e%2e/%2e%2e/1.0.0/bundle", 400),
        ("/envhub/v1/packages/..%2f..%2f/x/1.0.0/bundle", 404),
        ("/nowhere", 404),
        ("/envhub/v1/packages", 405),
    ],
)
async def test_what_cannot_be_answered_is_a_problem_as_json(tmp_path: Path, path: str, status: int) -> None:
    async with served(tmp_path / "hub") as hub:
        answer = await hub.get(path)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
        assert answer.json["error"] == answer.json["detail"]


async def test_a_token_is_for_its_namespace_and_purpose(tmp_path: Path) -> None:
    offer = Publisher(tmp_path).offer("lab/words")
    async with served(tmp_path / "hub") as hub:
        for token in (hub.token("other"), hub.token("lab", "yank")):
            refused = await hub.publish(offer, token)
            assert (refused.status, "this token is for" in refused.json["error"]) == (403, True)
        for token in ("", "envhub_000000000000_" + "A" * 43, "nonsense"):
            assert (await hub.publish(offer, token)).status == 401
        only_publishes = hub.token("lab", "publish")
        assert (await hub.publish(offer, only_publishes)).status == 201
        yank = "/envhub/v1/packages/lab/words/1.0.0/yank"
        assert (await hub.ask("POST", yank, headers=bearer(only_publishes))).status == 403
        assert (await hub.ask("POST", yank)).status == 401


async def test_an_upload_cut_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    async with served(tmp_path / "hub") as hub:
        head = (
            f"POST /envhub/v1/packages HTTP/1.1\r\nHost: {hub.url[7:]}\r\nAuthorization: Bearer {hub.token()}\r\n"
            "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 100000\r\n\r\n"
            '--x\r\nContent-Disposition: form-data; name="bundle"\r\n\r\n'
        )
        incoming = tmp_path / "hub" / "incoming"
        host, port = hub.url[7:].split(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(head.encode() + b"half of it")
            with anyio.fail_after(5):
                while not any(incoming.iterdir()):
                    await anyio.lowlevel.checkpoint()
        with anyio.fail_after(5):
            while any(incoming.iterdir()):
                await anyio.lowlevel.checkpoint()
        assert list((tmp_path / "hub" / "packages").iterdir()) == []
        assert (await hub.get("/health")).status == 200


def part(name: str, content: bytes = b"x") -> bytes:
    return b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (name.encode(), content)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (part("bundle") + b"--x--\r\n", 400),
        (part("bundle") + part("statement"), 400),
        (part("bundle") + part("bundle") + b"--x--\r\n", 400),
        (part("../evil") + b"--x--\r\n", 400),
        (b"no form at all", 400),
        (part("bundle") + part("statement") + b"--x--\r\n", 422),
        (part("statement", b"s" * (8 * 2**20 + 1)) + b"--x--\r\n", 413),
    ],
)
async def test_an_upload_of_another_shape_is_refused(tmp_path: Path, body: bytes, status: int) -> None:
    async with served(tmp_path / "hub") as hub:
        headers = {**bearer(hub.token()), "Content-Type": "multipart/form-data; boundary=x"}
        answer = await hub.ask("POST", "/envhub/v1/packages", data=io.BytesIO(body), headers=headers)
        assert (answer.status, list((tmp_path / "hub" / "incoming").iterdir())) == (status, [])
        plain = await hub.ask("POST", "/envhub/v1/packages", data=b"x", headers=bearer(hub.token()))
        assert plain.status == 415


async def test_who_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    offer = Publisher(tmp_path).offer("lab/words")
    async with served(tmp_path / "hub", Rates(reads=4, writes=1, failures=1)) as hub:
        token = hub.token()
        assert (await hub.publish(offer, token)).status == 201
        again = await hub.publish(offer, token)
        assert (again.status, int(again.headers["Retry-After"]) > 0) == (429, True)
        assert [(await hub.get("/health")).status for _ in range(3)] == [200, 200, 429]


async def test_a_page_from_elsewhere_is_not_answered(tmp_path: Path) -> None:
    async with served(tmp_path / "hub") as hub:
        assert (await hub.get("/", headers={"Host": "evil.example"})).status == 421
        assert (await hub.get("/", headers={"Origin": "http://evil.example"})).status == 403


async def test_sixteen_publishers_at_once_are_all_heard(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    offers = [publisher.offer(f"lab/env-{number}") for number in range(16)]
    statuses: list[int] = []
    async with served(tmp_path / "hub") as hub:
        token = hub.token()

        async def publish(number: int) -> None:
            statuses.append((await hub.publish(offers[number], token)).status)

        async with anyio.create_task_group() as tasks:
            for number in range(16):
                tasks.start_soon(publish, number)
        assert statuses == [201] * 16
        assert (await hub.get("/envhub/v1/search?limit=100")).json["total"] == 16


async def test_a_client_learns_what_answers_and_what_its_token_is_for(tmp_path: Path) -> None:
    async with served(tmp_path / "hub", Rates(writes=1)) as hub:
        assert (await hub.get("/registry.json")).json == {"format": 1, "api": "/envhub/v1"}
        tokens = Tokens(tmp_path / "hub" / "tokens.db")
        expires = datetime(2099, 1, 2, 3, 4, 5, tzinfo=UTC)
        made, text = tokens.create("lab", ("publish",), expires)
        for _ in range(3):  # asking is no publication: it does not use up what one token may do
            held = await hub.get("/envhub/v1/token", headers=bearer(text))
            assert held.json == {
                "id": made.token_id,
                "namespace": "lab",
                "scopes": ["publish"],
                "expires_at": "2099-01-02T03:04:05+00:00",
            }
        tokens.revoke(made.token_id)
        _, expired = tokens.create("lab", ("publish",), datetime(2020, 1, 1, tzinfo=UTC))
        for wrong in (text, expired, "nonsense"):
            answer = await hub.get("/envhub/v1/token", headers=bearer(wrong))
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert (await hub.get("/envhub/v1/token")).status == 401
