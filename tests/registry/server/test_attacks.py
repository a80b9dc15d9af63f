"""What a registry's server withstands: statements, tokens, names and replays that try to get more than they may."""

import base64
import json
import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rollouthub_registry.bundle.attestation import PAYLOAD_TYPE
from rollouthub_registry.server.atomic_write import open_layout
from rollouthub_registry.server.registry import open_registry
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.server.token_hashes import Tokens
from tests.registry.server.publishers import Offer, Publisher, statement_of
from tests.registry.server.serving import bearer, served

YANK = "/envhub/v1/packages/lab/words/1.0.0/yank"


def signed(publisher: Publisher, payload: str) -> bytes:
    """An envelope around whatever a publisher likes to sign."""
    content = payload.encode()
    head = b"DSSEv1 %d %b %d " % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(content))
    signature = {
        "keyid": publisher.key_id,
        "sig": base64.b64encode(publisher.key.sign(head + content)).decode(),
        "publicKey": base64.b64encode(publisher.public_key).decode(),
    }
    held = {"payload": base64.b64encode(content).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
    return json.dumps(held).encode()


def held(root: Path) -> list[str]:
    """What lies in a registry, but for its index and its tokens."""
    return sorted(str(file) for file in root.rglob("*") if file.is_file() and file.suffix not in (".db", ".db-wal"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2026-01-02T03:04:05Z", "0001-01-01T00:00:00+23:59"),  # before time begins, in UTC
        ("2026-01-02T03:04:05Z", "9999-12-31T23:59:59-23:59"),
        ('"samples":3', '"samples":' + "9" * 4200),
        ('"samples":3', '"samples":' + "9" * 5000),
        ('"mean_reward":0.5', '"mean_reward":NaN'),
        ('"mean_reward":0.5', '"mean_reward":1e999'),
        ('"model":"m"', '"model":"\\ud800"'),
        ('"report":null', '"report":' + "[" * 5000 + "]" * 5000),
        ('"contract":1}', '"contract":2}'),
        ('"license":"MIT"', '"license":"MIT","further":1'),
    ],
)
def test_a_signed_statement_that_cannot_be_kept_is_refused_and_in_nobodys_way(
    tmp_path: Path, old: str, new: str
) -> None:
    publisher, root = Publisher(tmp_path), tmp_path / "hub"
    bundle = publisher.build("lab/words", "1.0.0", "An environment.")
    payload = statement_of(bundle, [("m", 0.5, 3)]).model_dump_json()
    assert payload.count(old) == 1
    with open_registry(root) as registry:
        before = held(root)
        with pytest.raises(RegistryRequestRefused) as refused:
            registry.publish(bundle.path, signed(publisher, payload.replace(old, new)))
        assert (refused.value.status, held(root)) == (422, before)
    with open_registry(root) as registry:
        registry.publish(bundle.path, signed(publisher, payload))


async def test_a_yank_is_for_good(tmp_path: Path) -> None:
    offer = Publisher(tmp_path).offer("lab/words")
    async with served(tmp_path / "hub") as hub:
        token = hub.token()
        await hub.publish(offer, token)
        first = (await hub.ask("POST", YANK, json={"reason": "wrong"}, headers=bearer(token))).json
        again = (await hub.ask("POST", YANK, json={"reason": "no, it was fine"}, headers=bearer(token))).json
        assert again == first
        offered_again = await hub.publish(offer, token)
        assert (offered_again.status, offered_again.json["yanked"]) == (201, "wrong")
        path = "/envhub/v1/packages/lab/words/1.0.0"
        for method in ("PUT", "PATCH", "DELETE", "POST"):
            for each in (path, "/v0.1/servers/lab%2Fwords/versions/1.0.0", "/v0.1/servers"):
                assert (await hub.ask(method, each, json={}, headers=bearer(token))).status == 405
        assert (await hub.get(path)).json["yanked"] == "wrong"
        assert (await hub.get("/v0.1/servers")).json["servers"] == []
        assert (await hub.get("/envhub/v1/search?q=words")).json["total"] == 0


async def test_a_statement_is_not_exchanged_for_another_of_the_same_bytes(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    bundle = publisher.build("lab/words", "1.0.0", "An environment.")
    honest = Offer(bundle, publisher.sign(statement_of(bundle, passed=False)))
    better = Offer(bundle, publisher.sign(statement_of(bundle, [("m", 1.0, 9)], passed=True)))
    async with served(tmp_path / "hub") as hub:
        token = hub.token()
        assert (await hub.publish(honest, token)).status == 201
        assert (await hub.publish(better, token)).status == 409
        assert (await hub.get("/envhub/v1/packages/lab/words/1.0.0/statement")).body == honest.envelope


async def test_a_token_for_all_namespaces_is_no_key_to_them(tmp_path: Path) -> None:
    owner, stranger = Publisher(tmp_path / "owner"), Publisher(tmp_path / "stranger")
    async with served(tmp_path / "hub") as hub:
        token = hub.token("*")
        assert (await hub.publish(owner.offer("lab/words"), token)).status == 201
        before = held(tmp_path / "hub")
        for name, version, status in (
            ("lab/words", "1.0.0", 403),
            ("lab/words", "1.0.1", 403),
            ("lab/other", "1.0.0", 403),
            ("1ab/words", "1.0.0", 409),
            ("l.ab/words", "1.0.0", 409),
        ):
            answer = await hub.publish(stranger.offer(name, version, description="Mine."), token)
            assert (answer.status, answer.json["status"]) == (status, status)
        assert held(tmp_path / "hub") == before


async def test_a_token_that_counts_no_more_or_is_for_another_namespace_does_nothing(tmp_path: Path) -> None:
    offer = Publisher(tmp_path).offer("lab/words")
    async with served(tmp_path / "hub") as hub:
        tokens = Tokens(tmp_path / "hub" / "tokens.db")
        assert (await hub.publish(offer, hub.token())).status == 201
        made, revoked = tokens.create("lab", ("publish", "yank"))
        tokens.revoke(made.token_id)
        _, expired = tokens.create("lab", ("publish", "yank"), datetime(2020, 1, 1, tzinfo=UTC))
        begun = "".join((revoked[:-1], "A" if revoked[-1] != "A" else "B"))
        for text, status in ((revoked, 401), (expired, 401), (begun, 401), (hub.token("other"), 403)):
            assert (await hub.ask("POST", YANK, json={"reason": "mine"}, headers=bearer(text))).status == status
            assert (await hub.publish(offer, text)).status == status
        assert (await hub.get("/envhub/v1/packages/lab/words/1.0.0")).json["yanked"] is None


@pytest.mark.parametrize(
    "odd", ["..", "%2e%2e", ".%2e%2f", "a%00", "a%5c..%5cb", "%ff", "con", "A", "x" * 3000, "tokens.db"]
)
async def test_names_lead_nowhere_but_to_packages(tmp_path: Path, odd: str) -> None:
    async with served(tmp_path / "hub") as hub:
        await hub.publish(Publisher(tmp_path).offer("lab/words"), token := hub.token("*"))
        before = held(tmp_path / "hub")
        for path in (
            f"/envhub/v1/packages/{odd}/words/1.0.0",
            f"/envhub/v1/packages/lab/{odd}/1.0.0",
            f"/envhub/v1/packages/lab/words/{odd}",
            f"/v0.1/servers/{odd}%2Fwords/versions",
            f"/v0.1/servers/lab%2Fwords/versions/{odd}",
            f"/packages/lab/{odd}",
        ):
            for method, each in (("GET", path), ("GET", f"{path}/bundle"), ("POST", f"{path}/yank")):
                answer = await hub.ask(method, each, headers=bearer(token))
                assert answer.status in (400, 404, 405), (method, each)
                assert str(tmp_path).encode() not in answer.body
        assert held(tmp_path / "hub") == before


SERVE = "from rollouthub.cli.main import main; main()"
PUBLISH = """
import sys, urllib.request
url, token, bundle, envelope = sys.argv[1:]
part = b'--x\\r\\nContent-Disposition: form-data; name="%b"\\r\\n\\r\\n%b\\r\\n'
files = {b"bundle": bundle, b"statement": envelope}
body = b"".join(part % (name, open(file, "rb").read()) for name, file in files.items())
headers = {"Authorization": f"Bearer {token}", "Content-Type": "multipart/form-data; boundary=x"}
urllib.request.urlopen(urllib.request.Request(f"{url}/envhub/v1/packages", body + b"--x--\\r\\n", headers)).read()
"""


@pytest.mark.soak
def test_no_answered_publication_is_lost_when_server_and_publishers_are_killed(tmp_path: Path) -> None:
    publisher, root, dice = Publisher(tmp_path), tmp_path / "hub", random.Random(11)
    token = Tokens(open_layout(root).tokens).create("lab", ("publish",))[1]
    offers = [publisher.offer(f"lab/env-{number}") for number in range(40)]
    envelopes = [tmp_path / f"{number}.envelope" for number in range(40)]
    for offer, envelope in zip(offers, envelopes, strict=True):
        envelope.write_bytes(offer.envelope)
    serve = [sys.executable, "-c", SERVE, "registry", "serve", str(root), "--port", "0", "--json"]
    answered: set[str] = set()
    for _ in range(8):
        with subprocess.Popen(serve, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            command = [sys.executable, "-c", PUBLISH, url, token]
            publishers = {
                str(offers[number].release): subprocess.Popen(
                    [*command, offers[number].bundle.path, envelopes[number]], stderr=subprocess.DEVNULL
                )
                for number in dice.sample(range(40), 8)
            }
            first, *victims = dice.sample(sorted(publishers), 3)
            publishers[first].wait(30)  # the others are at whatever they are at
            for victim in victims:
                publishers[victim].kill()
            server.kill()
        answered |= {release for release, process in publishers.items() if process.wait() == 0}
        with open_registry(root) as registry:
            assert list(registry.layout.incoming.iterdir()) == []
            there = {str(release) for release in registry.layout.releases()}
            assert answered <= there == set(registry.index.standings())
            for offer in (offer for offer in offers if str(offer.release) in there):
                assert registry.layout.bundle(offer.release).read_bytes() == offer.bundle.path.read_bytes()
        lines = [json.loads(line) for line in (root / "catalog.jsonl").read_text().splitlines()]
        assert {f"{line['name']}@{line['version']}" for line in lines} == there
    assert 0 < len(answered) < 40
