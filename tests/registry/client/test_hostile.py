"""What a registry says is believed in nothing but its form."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from rollouthub_registry.bundle.bundle import open_bundle
from rollouthub_registry.client.client_error import RegistryFault
from rollouthub_registry.client.source import open_source
from rollouthub_registry.names import Release
from rollouthub_registry.server.registry import open_registry
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.signatures import verify
from rollouthub_registry.trust.trust_error import SignatureRefused
from tests.registry.client.commanding import hub_beside
from tests.registry.client.hosts import (
    DICE,
    RELEASE,
    Use,
    files_of,
    find,
    host,
    hostile,
    knows_the_token,
    offers,
    says,
)
from tests.registry.server.publishers import Publisher


def listed(folder: Path, **changed: Any) -> dict[str, Any]:
    """A version as a registry tells it, with something else in it."""
    line = (folder / "packages/lab/dice/versions.jsonl").read_text().splitlines()[0]
    return json.loads(line) | changed


async def test_another_packages_bundle_does_not_pass_for_the_one_asked_for(folder: Path, tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        path = request.path.replace("/envhub/v1", "").replace("dice/1.2.0", "cards/1.0.0")
        names = {"bundle": "bundle.envhub", "statement": "statement.dsse.json"}
        path = "/".join(names.get(part, part) for part in path.split("/"))
        return web.FileResponse(folder / path.removeprefix("/"))

    async with hostile(answer) as (source, _):
        fetched = await source.fetch(RELEASE, tmp_path)
    with pytest.raises(SignatureRefused, match=r"lab/dice@1\.2\.0 was asked for, but .* lab/cards@1\.0\.0"):
        verify(fetched.envelope, open_bundle(fetched.bundle).digest, RELEASE, Pins())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "lab/cards"}, "lab/dice was asked for, and it speaks of lab/cards"),
        ({"name": "lab/../../etc"}, "is no name"),
        ({"name": "other/dice"}, "speaks of other/dice"),
        ({"version": "../../1.0.0"}, "is no version"),
        ({"version": "1.0.0\x1b[31m"}, "is no version"),
        ({"digest": "sha256:../x"}, "digest"),
        ({"key_id": "\x1b]0;"}, "key_id"),
        ({"size": -1}, "size"),
        ({"yanked": 7}, "yanked"),
        ({"description": "x" * 20_000}, "description"),
        ({"quality": {}}, "checks_passed"),
    ],
)
async def test_an_answer_that_does_not_hold_is_none(folder: Path, changed: dict[str, Any], said: str) -> None:
    async with hostile(says({"versions": [listed(folder, **changed)]})) as (source, _):
        with pytest.raises(RegistryFault) as refused:
            await source.offers(DICE)
    assert said in str(refused.value) and str(refused.value).isprintable()


async def test_a_version_is_not_offered_twice(folder: Path) -> None:
    twice = [listed(folder), listed(folder, digest="sha256:" + "0" * 64)]
    async with hostile(says({"versions": twice})) as (source, _):
        with pytest.raises(RegistryFault, match="twice"):
            await source.offers(DICE)


@pytest.mark.parametrize("content", [[], {}, {"versions": {}, "results": 1}, None, "[" * 100_000])
@pytest.mark.parametrize("use", [offers, find])
async def test_what_is_no_answer_is_a_fault(content: Any, use: Use) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=content if isinstance(content, str) else json.dumps(content))

    async with hostile(answer) as (source, _):
        with pytest.raises(RegistryFault):
            await use(source)


async def test_ten_thousand_versions_are_read_at_once(folder: Path) -> None:
    file = folder / "packages/lab/dice/versions.jsonl"
    line = listed(folder)
    lines = [json.dumps(line | {"version": f"1.{number}.0"}) for number in range(10_000)]
    file.write_text("\n".join((*lines, *lines)) + "\n")
    async with open_source(folder.as_uri()) as source:
        with anyio.fail_after(5):
            found = await source.offers(DICE)
    assert (len(found), str(found[0].release.version)) == (10_000, "1.9999.0")


async def test_a_pipe_in_the_place_of_a_file_holds_nobody(folder: Path, tmp_path: Path) -> None:
    file = folder / "packages/lab/dice/1.2.0/bundle.envhub"
    file.unlink()
    os.mkfifo(file)
    async with open_source(folder.as_uri()) as source:
        with anyio.fail_after(5), pytest.raises(RegistryFault, match="no plain file"):
            await source.fetch(RELEASE, tmp_path)
    assert not (tmp_path / RELEASE.file_name).exists()


async def test_what_is_fetched_replaces_no_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / RELEASE.file_name).write_text("mine")
    async with open_source(folder.as_uri()) as source:
        with pytest.raises(FileExistsError):
            await source.fetch(RELEASE, tmp_path)
    async with host(files_of(folder)) as up, open_source(up.url) as source:
        with pytest.raises(FileExistsError):
            await source.fetch(RELEASE, tmp_path)
    assert (tmp_path / RELEASE.file_name).read_text() == "mine"


async def test_text_of_strangers_drives_no_terminal(tmp_path: Path, publisher: Publisher, home: Path) -> None:
    with open_registry(tmp_path / "loud") as registry:
        offer = publisher.offer("lab/loud", description="[bold]very[/bold] loud")
        registry.publish(offer.bundle.path, offer.envelope)
        registry.yank(Release.parse("lab/loud@1.0.0"), "\x1b]0;owned\x07\x1b[31m[red]no[/red]")
        offer = publisher.offer("lab/loud", "2.0.0", description="[bold]very[/bold] loud")
        registry.publish(offer.bundle.path, offer.envelope)
    url = (tmp_path / "loud").as_uri()
    for words in (["info", "lab/loud", "--registry", url], ["search", "loud", "--registry", url]):
        done = await hub_beside(*words)
        assert done.code == 0 and "\x1b" not in done.out and "[bold]very[/bold] loud" in done.out
    assert "[red]no[/red]" in (await hub_beside("info", "lab/loud@1.0.0", "--registry", url)).out


async def test_a_registry_that_tells_of_another_key_than_signed_is_found_out(folder: Path, home: Path) -> None:
    file = folder / "packages/lab/cards/versions.jsonl"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"key_id": "0" * 64}) + "\n")
    done = await hub_beside("info", "lab/cards", "--registry", folder.as_uri())
    assert isinstance(done.error, SignatureRefused) and "what was not signed" in done.complaint


@pytest.mark.parametrize("changed", [{"name": "lab/\x1b[31m"}, {"name": "lab/cards"}, {}])
async def test_a_server_that_says_it_published_something_else_is_not_believed(
    publisher: Publisher, folder: Path, changed: dict[str, str]
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.json_response(listed(folder, **changed), status=201)

    offer = publisher.offer("lab/dice", "1.0.0", description="Other dice.")
    async with hostile(knows_the_token(answer)) as (source, _):
        with pytest.raises(RegistryFault, match="does not answer as one") as refused:
            await source.publish(offer.bundle.path, offer.envelope)
    assert str(refused.value).isprintable()
