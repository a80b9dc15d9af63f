"""Publishing from a folder to a registry: what is refused or interrupted leaves nothing."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from rollouthub.errors import HubError, UsageError
from rollouthub_registry.bundle.attestation import Statement
from rollouthub_registry.bundle.bundle import open_bundle
from rollouthub_registry.client.client_error import RegistryRefused, TokenRefused
from rollouthub_registry.client.token_store import keep_token
from rollouthub_registry.names import Release
from rollouthub_registry.publish.console import Silent
from rollouthub_registry.publish.publication import PublishRequest, PublishResult, publish
from rollouthub_registry.publish.publish_error import PublishRefused
from rollouthub_registry.publish.steps import Steps
from rollouthub_registry.server.directory_layout import Layout
from rollouthub_registry.server.registry import open_registry
from rollouthub_registry.trust.keys import config_folder
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.signatures import open_envelope, parse_envelope, verify
from tests.registry.publish.environments import MANIFEST, QUICK, SERVER, VERIFY, write_environment
from tests.registry.server.serving import served

Home = dict[str, str]
GENEROUS = VERIFY.replace("0.0", "1.0").replace("False", "True")
LEFT_BEHIND = SERVER.replace("import json", "import left_behind, json")
SETUP = "raise SystemExit('this must never run')\n"


def order(folder: Path, **more: Any) -> PublishRequest:
    return PublishRequest(folder, asked=QUICK, is_quick=True, **more)


def done(order: PublishRequest, home: Home) -> PublishResult:
    return publish(order, home, Steps(Silent()))


def statement(folder: Path, release: str) -> Statement:
    raw = Layout(folder).statement(Release.parse(release)).read_bytes()
    return open_envelope(parse_envelope(raw)).statement


def published(folder: Path) -> list[Release]:
    return [*Layout(folder).releases()]


def is_clean(tmp_path: Path) -> bool:
    return not [*(tmp_path / "temporary").iterdir()]


def test_an_environment_is_checked_signed_and_published_once(tmp_path: Path, home: Home) -> None:
    to = (tmp_path / "hub").as_uri()
    folder = write_environment(tmp_path / "words")
    made = done(order(folder, to=to), home)
    said = statement(tmp_path / "hub", "lab/words@1.0.0")
    assert (made.registry, said.digest) == (to, made.digest)
    assert said.predicate.check.passed
    assert said.predicate.tools_digest is not None
    assert made.install == ("hub", "install", "lab/words@1.0.0", "--registry", to)

    again = done(order(folder, to=to), home)  # from here on nothing is checked any more: it is known before
    assert again.was_there
    assert again.digest == made.digest
    with pytest.raises(PublishRefused, match="signed by another key"):
        done(order(folder, to=to), {**home, "XDG_CONFIG_HOME": str(tmp_path / "stranger")})
    (folder / "server.py").write_text(LEFT_BEHIND)
    with pytest.raises(PublishRefused, match="a version never changes: raise `version`"):
        done(order(folder, to=to), home)
    assert is_clean(tmp_path)


def test_failing_checks_are_marked_where_they_are_allowed_without_answers_or_paths(tmp_path: Path, home: Home) -> None:
    to, folder = (tmp_path / "hub").as_uri(), write_environment(tmp_path / "words", {"verify.py": GENEROUS})
    done(order(folder, to=to, allows_failing_checks=True), home)
    with open_registry(tmp_path / "hub") as registry:
        assert not registry.get(Release.parse("lab/words@1.0.0")).facts.checks_passed
    said = statement(tmp_path / "hub", "lab/words@1.0.0")
    assert '"state": "failed"' in json.dumps(said.predicate.check.report)
    whole = said.model_dump_json()
    assert not [hidden for hidden in ("the-secret-word", str(tmp_path), "/home") if hidden in whole]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"server.py": LEFT_BEHIND, "../left_behind.py": ""},
            "(?s)start from its bundle: env.toml: .*left_behind.*in your folder",
        ),
        ({"verify.py": "import no_such_distribution\n"}, r"fails 1 of 2 checks \(null\)"),
        ({"setup.py": SETUP}, r"setup\.py"),
        ({".env": "KEY=1"}, r"\.env"),
        ({"notes.txt": "-----BEGIN PRIVATE KEY-----"}, "a private key"),
        ({"env.toml": MANIFEST.replace("license", "licence")}, "env.toml:4: there is no key 'licence'"),
        ({"env.toml": MANIFEST.replace("tasks.jsonl", "no.jsonl")}, r"env\.toml:11: .*no\.jsonl"),
    ],
)
def test_what_must_not_be_published_is_not(tmp_path: Path, home: Home, changes: Mapping[str, str], why: str) -> None:
    folder = write_environment(tmp_path / "author" / "words", changes)
    with pytest.raises(HubError, match=why):
        done(order(folder, to=(tmp_path / "hub").as_uri()), home)
    assert published(tmp_path / "hub") == []
    assert is_clean(tmp_path)


def test_a_folder_of_something_else_does_not_become_a_registry(tmp_path: Path, home: Home) -> None:
    folder, steps = write_environment(tmp_path / "words"), Steps(Silent())
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match=r"is no registry: it has no registry\.json and is not empty"):
        publish(order(folder, to=folder.as_uri()), home, steps)
    assert "installing" not in " ".join(step.step for step in steps.all)  # before anything long
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert is_clean(tmp_path)


def test_every_problem_is_told_at_once_with_file_and_line(tmp_path: Path, home: Home) -> None:
    bare = MANIFEST.replace('license = "MIT"\n', "").replace('description = "Say a word."\n', "")
    folder = write_environment(tmp_path / "words", {"env.toml": bare.replace("lab/", "lab_1/")})
    with pytest.raises(PublishRefused) as refused:
        done(order(folder, to=(tmp_path / "hub").as_uri()), home)
    told = str(refused.value)
    assert told.count(f"{folder / 'env.toml'}:") == 3
    assert all(key in told for key in (": name: ", ": description: ", ": license: "))


def test_bundle_and_statement_are_written_to_a_folder_instead(tmp_path: Path, home: Home) -> None:
    made = done(order(write_environment(tmp_path / "words"), out=tmp_path / "out"), home)
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "lab__words-1.0.0.envhub",
        "lab__words-1.0.0.envhub.statement.json",
    ]
    assert made.bundle is not None
    assert made.statement is not None
    bundle = open_bundle(made.bundle)
    verify(parse_envelope(made.statement.read_bytes()), bundle.digest, bundle.release, Pins())


@pytest.mark.soak
def test_a_rehearsal_publishes_and_writes_nothing(tmp_path: Path, home: Home) -> None:
    folder = write_environment(tmp_path / "words")
    made = done(order(folder, to=(tmp_path / "hub").as_uri(), is_rehearsal=True), home)
    assert made.passed is not None
    assert made.install is None
    assert not (tmp_path / "hub").exists()


def test_without_a_registry_for_the_namespace_it_says_how_to_name_one(tmp_path: Path, home: Home) -> None:
    with pytest.raises(UsageError, match=r"no registry is named for the namespace 'lab'.*--registry URL"):
        done(order(write_environment(tmp_path / "words")), home)


class Interrupting(Silent):
    """Ctrl-C when a step begins."""

    def __init__(self, step: str) -> None:
        self.step = step

    def begun(self, what: str) -> None:
        if what.startswith(self.step):
            raise KeyboardInterrupt


QUICK_STEPS = ("reading", "building", "asking", "installing", "starting")
SLOW_STEPS = [pytest.param(step, marks=pytest.mark.soak) for step in ("checking", "signing", "publishing")]


@pytest.mark.parametrize("step", [*QUICK_STEPS, *SLOW_STEPS])
def test_an_interrupted_publication_leaves_nothing(tmp_path: Path, home: Home, step: str) -> None:
    given = order(write_environment(tmp_path / "words"), to=(tmp_path / "hub").as_uri())
    with pytest.raises(KeyboardInterrupt):
        publish(given, home, Steps(Interrupting(step)))
    assert published(tmp_path / "hub") == []
    assert is_clean(tmp_path)


async def test_a_served_registry_takes_it_with_a_token_of_its_namespace(tmp_path: Path, home: Home) -> None:
    folder = write_environment(tmp_path / "words")
    async with served(tmp_path / "hub") as hub:

        async def published_at() -> PublishResult:
            return await to_thread.run_sync(done, order(folder, to=hub.url), home)

        with pytest.raises(TokenRefused, match="hub login"):
            await published_at()
        keep_token(hub.url, hub.token("other"), config_folder(home))
        with pytest.raises(TokenRefused, match="not for publishing in 'lab'"):
            await published_at()
        keep_token(hub.url, hub.token("lab"), config_folder(home))
        made = await published_at()
        assert made.seen_at == f"{hub.url}/packages/lab/words/1.0.0"
        assert (await hub.get("/envhub/v1/packages/lab/words/1.0.0")).json["quality"]["checks_passed"]


@pytest.mark.soak
async def test_a_namespace_of_another_key_is_refused_by_the_registry(tmp_path: Path, home: Home) -> None:
    to = (tmp_path / "hub").as_uri()
    await to_thread.run_sync(done, order(write_environment(tmp_path / "words"), to=to), home)
    more = write_environment(tmp_path / "more", {"env.toml": MANIFEST.replace("lab/words", "lab/more")})
    with pytest.raises(RegistryRefused, match="lab"):
        await to_thread.run_sync(done, order(more, to=to), {**home, "XDG_CONFIG_HOME": str(tmp_path / "stranger")})
