"""What the MCP list gives is each manifest's own `server.json`, and the official schema lets it pass."""

import hashlib
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from jsonschema import Draft7Validator

from rollouthub_registry.manifest import MANIFEST_META
from rollouthub_registry.manifest.server_entry import PUBLISHER_META
from rollouthub_registry.names import Release
from rollouthub_registry.server.env_toml import env_toml
from rollouthub_registry.server.registry import open_registry, rebuild
from tests.registry.server.kinds import ABOUTS, KINDS, offer, offers, official_schema
from tests.registry.server.publishers import Publisher
from tests.registry.server.serving import served

URL = "https://hub.example/registry"
LETTERS = some.text(some.characters(exclude_categories=["Cs"]), max_size=200)
VARIABLES = some.from_regex(r"[A-Z_][A-Z0-9_]{0,90}", fullmatch=True)


def problems(schema: Any, entry: dict[str, Any]) -> list[str]:
    validator = cast(Any, Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER))
    return [problem.message for problem in validator.iter_errors(entry)]


async def test_an_entry_leads_to_the_bundle_and_names_its_bytes(tmp_path: Path) -> None:
    published = offer(Publisher(tmp_path), "lab/kinds", "1.0.0", "url", ABOUTS["everything"])
    async with served(tmp_path / "hub", public_url=URL) as hub:
        await hub.publish(published, hub.token())
        listed = (await hub.get("/v0.1/servers")).json["servers"][0]
        assert listed == (await hub.get("/v0.1/servers/lab%2Fkinds/versions/latest")).json
        assert listed == (await hub.get("/v0/servers/lab%2Fkinds/versions")).json["servers"][0]
        server = listed["server"]
        (bundle,) = server["packages"]
        assert bundle["identifier"] == f"{URL}/envhub/v1/packages/lab/kinds/1.0.0/bundle"
        fetched = (await hub.get(bundle["identifier"].removeprefix(URL))).body
        assert hashlib.sha256(fetched).hexdigest() == bundle["fileSha256"]
        assert server["remotes"][0]["url"] == "https://tools.example/mcp?x=1&y=%7Btask%7D"
        provided = server["_meta"][PUBLISHER_META][MANIFEST_META]
        assert provided["manifest_sha256"] == hashlib.sha256(env_toml(published.bundle.path)).hexdigest()
        assert f"sha256:{provided['bundle_sha256']}" == published.bundle.digest
        assert listed["_meta"]["envhub/registry"]["checks_passed"] is True


def test_an_env_toml_is_found_wherever_it_lies_in_a_bundle(tmp_path: Path) -> None:
    from rollouthub_registry.bundle.bundle import build_bundle

    publisher = Publisher(tmp_path)
    folder = tmp_path / "lab__words" / "1.0.0"
    publisher.offer("lab/words")
    for before in (0, 1, 65_535 - 1024, 65_535 - 512, 200_000):
        (folder / "a").write_bytes(b"a" * before)
        bundle = build_bundle(folder, tmp_path)
        assert env_toml(bundle.path) == (folder / "env.toml").read_bytes()


def test_entries_are_made_anew_as_they_were(tmp_path: Path) -> None:
    root = tmp_path / "hub"
    with open_registry(root) as registry:
        for each in offers(Publisher(tmp_path)):
            registry.publish(each.bundle.path, each.envelope)
        before = [listing.as_server(URL) for listing in registry.index.page(100).listings]
    assert rebuild(root) == len(before) == len(KINDS) * len(ABOUTS)
    with open_registry(root) as registry:
        assert [listing.as_server(URL) for listing in registry.index.page(100).listings] == before


@pytest.mark.live
async def test_the_official_schema_lets_every_entry_pass(tmp_path: Path) -> None:
    schema = official_schema()
    publisher = Publisher(tmp_path)
    async with served(tmp_path / "hub") as hub:
        token = hub.token()
        for each in offers(publisher):
            assert (await hub.publish(each, token)).status == 201
        listed = (await hub.get("/v0.1/servers?limit=100")).json["servers"]
        assert len(listed) == len(KINDS) * len(ABOUTS)
        for each in listed:
            assert problems(schema, each["server"]) == []


@pytest.mark.live
def test_the_official_schema_lets_pass_whatever_a_manifest_may_say(tmp_path: Path) -> None:
    schema, publisher, tried = official_schema(), Publisher(tmp_path), iter(range(10_000))
    with open_registry(tmp_path / "hub") as registry:

        @settings(max_examples=150, deadline=None, database=None)
        @given(
            some.sampled_from(sorted(KINDS)),
            some.fixed_dictionaries(
                {"description": LETTERS},
                optional={
                    "secrets": some.lists(VARIABLES, max_size=9, unique=True),
                    "homepage": LETTERS.map(lambda text: f"https://example.org/{''.join(text.split())}"),
                    "tags": some.lists(some.from_regex(r"[a-z0-9][a-z0-9-]{0,39}", fullmatch=True), max_size=20),
                },
            ),
        )
        def hold(kind: str, about: dict[str, Any]) -> None:
            version = f"1.{next(tried)}.0"
            made = offer(publisher, "lab/kinds", version, kind, about)
            registry.publish(made.bundle.path, made.envelope)
            listed = registry.get(Release.parse(f"lab/kinds@{version}")).as_server(URL)
            assert problems(schema, listed["server"]) == []

        hold()
