"""What every kind of registry does for who asks it: a server, a file server, a folder."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub_registry.bundle.bundle import open_bundle
from rollouthub_registry.client.client_error import NotPublished, RegistryFault, RegistryRefused, TokenRefused
from rollouthub_registry.client.offer import Hit, Progress
from rollouthub_registry.client.source import Source, open_source
from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.signatures import verify
from tests.registry.client.hosts import files_of, host
from tests.registry.server.publishers import Publisher
from tests.registry.server.serving import served

KINDS = ["server", "file server", "folder"]
DICE, CARDS = PackageName.parse("lab/dice"), PackageName.parse("lab/cards")


@dataclass(frozen=True)
class World:
    """A registry's directory, somebody who publishes, and how a client sees it."""

    folder: Path
    publisher: Publisher
    source: Source


@asynccontextmanager
async def world(kind: str, folder: Path, publisher: Publisher) -> AsyncGenerator[World]:
    """A registry of one kind, over a directory."""
    async with AsyncExitStack() as stack:
        token = None
        if kind == "server":
            up = await stack.enter_async_context(served(folder))
            url, token = up.url, up.token("lab")
        elif kind == "file server":
            url = (await stack.enter_async_context(host(files_of(folder)))).url
        else:
            url = folder.as_uri()
        yield World(folder, publisher, await stack.enter_async_context(open_source(url, token)))


def noting(told: list[tuple[int, int | None]]) -> Progress:
    """Keeps what it is told of progress."""

    def note(done: int, whole: int | None) -> None:
        told.append((done, whole))

    return note


def stamps(folder: Path) -> dict[Path, int]:
    """When each file of a folder was changed."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("kind", KINDS)
async def test_all_versions_are_offered_the_highest_first(kind: str, folder: Path, publisher: Publisher) -> None:
    async with world(kind, folder, publisher) as there:
        offers = await there.source.offers(DICE)
        assert [str(offer.release.version) for offer in offers] == ["2.0.0", "1.10.0", "1.2.0", "1.0.0"]
        assert [offer.yanked for offer in offers] == ["the dice were loaded", None, None, None]
        (cards,) = await there.source.offers(CARDS)
        assert (cards.key_id, cards.checks_passed, cards.difficulty) == (publisher.key_id, False, 0.75)
        assert [(each.model, each.mean_reward, each.samples) for each in cards.baselines] == [("mock/solver", 0.25, 40)]
        assert (cards.licence, cards.contract, cards.description) == ("MIT", 1, "A game of luck and cards.")


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_fetched_is_what_was_published(
    kind: str, folder: Path, publisher: Publisher, tmp_path: Path
) -> None:
    release = Release.parse("lab/dice@1.2.0")
    came = list[tuple[int, int | None]]()
    async with world(kind, folder, publisher) as there:
        fetched = await there.source.fetch(release, tmp_path, noting(came))
        offer = next(each for each in await there.source.offers(DICE) if each.release == release)
    bundle = open_bundle(fetched.bundle)
    verify(fetched.envelope, bundle.digest, release, Pins())
    assert (bundle.digest, bundle.size) == (offer.digest, offer.size)
    assert fetched.raw == (folder / "packages/lab/dice/1.2.0/statement.dsse.json").read_bytes()
    assert came[-1] == (bundle.size, bundle.size)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_not_there_is_said_with_the_registry(
    kind: str, folder: Path, publisher: Publisher, tmp_path: Path
) -> None:
    async with world(kind, folder, publisher) as there:
        with pytest.raises(NotPublished) as refused:
            await there.source.offers(PackageName.parse("lab/chess"))
        assert str(refused.value) == f"lab/chess is not published at {there.source.url}"
        for missing in ("lab/dice@9.9.9", "lab/chess@1.0.0"):
            with pytest.raises(NotPublished, match=missing):
                await there.source.fetch(Release.parse(missing), tmp_path)
    assert [path for path in stamps(tmp_path) if path.parent == tmp_path and path.suffix == ".envhub"] == []


def names(hits: list[Hit]) -> list[str]:
    """What was found."""
    return [str(hit.offer.release) for hit in hits]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_search_finds_environments_by_words(kind: str, folder: Path, publisher: Publisher) -> None:
    async with world(kind, folder, publisher) as there:
        search = there.source.search
        assert names(await search("luck")) == ["lab/dice@1.10.0", "lab/cards@1.0.0"]
        assert names(await search("card")) == ["lab/cards@1.0.0"]
        assert names(await search("luck game")) == ["lab/cards@1.0.0"]
        assert names(await search("chess")) == names(await search("'\"*")) == []
        assert names(await search("", sort="name")) == ["lab/cards@1.0.0", "lab/dice@1.10.0"]
        assert names(await search("", sort="hardest")) == ["lab/cards@1.0.0", "lab/dice@1.10.0"]
        assert names(await search("", tag="luck")) == ["lab/dice@1.10.0"]
        assert names(await search("luck", limit=1)) == ["lab/dice@1.10.0"]
        assert {hit.source for hit in await search("")} == {there.source.url}


@pytest.mark.parametrize("kind", ["server", "folder"])
async def test_a_bundle_is_published_and_yanked(kind: str, folder: Path, publisher: Publisher) -> None:
    offer = publisher.offer("lab/dice", "3.0.0")
    sent = list[tuple[int, int | None]]()
    async with world(kind, folder, publisher) as there:
        url = await there.source.publish(offer.bundle.path, offer.envelope, noting(sent))
        assert url == f"{there.source.url}/packages/lab/dice/3.0.0"
        assert (await there.source.offers(DICE))[0].digest == offer.bundle.digest
        await there.source.yank(offer.release, "it was too early")
        assert (await there.source.offers(DICE))[0].yanked == "it was too early"
        with pytest.raises(NotPublished, match=r"lab/dice@4\.0\.0"):
            await there.source.yank(Release.parse("lab/dice@4.0.0"), "")
    if kind == "server":
        assert sent[-1][0] == sent[-1][1] and (sent[-1][1] or 0) > offer.bundle.size


@pytest.mark.parametrize("kind", ["server", "folder"])
async def test_a_registry_says_why_it_takes_nothing(
    kind: str, folder: Path, publisher: Publisher, tmp_path: Path
) -> None:
    async with world(kind, folder, publisher) as there:
        other = publisher.offer("lab/dice", "1.2.0", description="Other dice.")
        with pytest.raises(RegistryRefused, match=r"published already.*raise the version") as refused:
            await there.source.publish(other.bundle.path, other.envelope)
        assert refused.value.status == 409
        stranger = Publisher(tmp_path / "stranger").offer("lab/dice", "5.0.0")
        with pytest.raises(RegistryRefused, match="belongs to another key") as refused:
            await there.source.publish(stranger.bundle.path, stranger.envelope)
        assert refused.value.status == 403
        with pytest.raises(RegistryRefused, match="the statement speaks of another bundle") as refused:
            await there.source.publish(other.bundle.path, publisher.offer("lab/dice", "1.3.0").envelope)
        assert refused.value.status == 422


async def test_a_file_server_takes_nothing(folder: Path, publisher: Publisher) -> None:
    offer = publisher.offer("lab/dice", "3.0.0")
    async with world("file server", folder, publisher) as there:
        with pytest.raises(RegistryRefused, match=r"takes none.*hub serve registry"):
            await there.source.publish(offer.bundle.path, offer.envelope)
        with pytest.raises(RegistryRefused, match="takes none"):
            await there.source.yank(offer.release, "")


async def test_a_server_wants_a_token_and_says_how_to_get_one(folder: Path, publisher: Publisher) -> None:
    offer = publisher.offer("lab/dice", "3.0.0")
    async with served(folder) as up:
        async with open_source(up.url) as source:
            with pytest.raises(TokenRefused, match=f"needs a token for this; run `hub login {up.url}`"):
                await source.publish(offer.bundle.path, offer.envelope)
        async with open_source(up.url, "envhub_000000000000_" + "a" * 43) as source:
            with pytest.raises(TokenRefused, match="not valid: unknown, expired or revoked"):
                await source.publish(offer.bundle.path, offer.envelope)
        async with open_source(up.url, up.token("lab", "publish")) as source:
            with pytest.raises(RegistryRefused, match="this token is for publish in 'lab', not to yank"):
                await source.yank(Release.parse("lab/dice@1.0.0"), "")


async def test_the_first_publication_makes_a_folder_a_registry(tmp_path: Path, publisher: Publisher) -> None:
    offer, url = publisher.offer("lab/dice"), (tmp_path / "new").as_uri()
    async with open_source(url) as source:
        with pytest.raises(ConfigError, match="there is no registry in"):
            await source.offers(DICE)
        assert not (tmp_path / "new").exists()
        await source.publish(offer.bundle.path, offer.envelope)
        assert (await source.offers(DICE))[0].release == offer.release


async def test_a_folder_is_read_without_leave_to_write(folder: Path, publisher: Publisher, tmp_path: Path) -> None:
    before = stamps(folder)
    async with open_source(folder.as_uri()) as source:
        await source.offers(DICE)
        await source.search("luck")
        await source.fetch(Release.parse("lab/dice@1.0.0"), tmp_path)
    assert stamps(folder) == before


async def test_what_is_no_registry_is_said_to_be_none(tmp_path: Path) -> None:
    async with host(files_of(tmp_path)) as empty:
        with pytest.raises(ConfigError, match=r"no registry at http://127.*: it has no registry\.json"):
            async with open_source(empty.url):
                pass
        with pytest.raises(ConfigError, match=f"leave out /a/b if it is {empty.url}"):
            async with open_source(f"{empty.url}/a/b"):
                pass
        for sign, says in (
            ("<html>", "no registry at"),
            ("[]", "no registry at"),
            ('{"format": 2}', "newer rollouthub"),
        ):
            (tmp_path / "registry.json").write_text(sign)
            for url in (empty.url, tmp_path.as_uri()):
                with pytest.raises(ConfigError, match=says):
                    async with open_source(url):
                        pass


async def test_a_line_torn_off_at_the_end_is_passed_over(folder: Path, publisher: Publisher) -> None:
    file = folder / "packages/lab/dice/versions.jsonl"
    file.write_bytes(file.read_bytes() + file.read_bytes()[:100])
    async with open_source(folder.as_uri()) as source:
        assert len(await source.offers(DICE)) == 4


async def test_a_file_damaged_before_its_end_is_no_answer(folder: Path) -> None:
    file = folder / "packages/lab/dice/versions.jsonl"
    file.write_bytes(b"{}\n" + file.read_bytes())
    async with open_source(folder.as_uri()) as source:
        with pytest.raises(RegistryFault, match="line 1 tells of no version"):
            await source.offers(DICE)
