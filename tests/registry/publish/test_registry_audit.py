"""`hub registry audit`: what was published is audited again, and what is found is signed and shown with it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from rollouthub.errors import HubError
from rollouthub.event_loop import run_async
from rollouthub_registry.bundle.attestation import AuditSummary, ClassResult
from rollouthub_registry.client.package_info import as_json, look_up
from rollouthub_registry.client.source import open_source
from rollouthub_registry.client.version_ranges import VersionRequest
from rollouthub_registry.names import Release
from rollouthub_registry.publish.console import Silent
from rollouthub_registry.publish.publication import PublishRequest, publish
from rollouthub_registry.publish.registry_audit import added
from rollouthub_registry.publish.registry_command import registry as commands
from rollouthub_registry.publish.steps import Steps
from rollouthub_registry.server.directory_layout import Layout
from rollouthub_registry.server.registry import open_registry
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.trust.keys import Key, config_folder, load_key
from rollouthub_registry.trust.pins import Pins
from rollouthub_registry.trust.signed_audits import open_audit, sign_audit
from rollouthub_registry.trust.trust_error import SignatureRefused
from tests.cli.conftest import (
    Hub,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
)
from tests.registry.publish.conftest import home_in
from tests.registry.publish.environments import MANIFEST, QUICK, write_environment
from tests.registry.server.serving import served

WORDS, PAID = Release.parse("lab/words@1.0.0"), Release.parse("lab/paid@1.0.0")
CHEAT = """\
from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater

async def act(cheater: Cheater) -> None:
    cheater.answer("please")

CHEAT = Cheat("ask-nicely", "wrong-accepted", "asking is not paid", "https://example.org/ask", act)
"""
PAYS_WHO_ASKS = """\
import json, sys

given = json.load(sys.stdin)
asked = "please" in json.dumps(given["submission"])
print(json.dumps({"reward": float(asked), "passed": asked}))
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, walled: None) -> Path:
    """A folder with a registry, `hub`, and its publisher's key: a sound environment, and one that pays whoever says
    please.
    """
    folder = tmp_path_factory.mktemp("published")
    with home_in(folder) as home:
        for name, changes in (("words", {}), ("paid", {"verify.py": PAYS_WHO_ASKS})):
            manifest = MANIFEST.replace("lab/words", f"lab/{name}")
            environment = write_environment(folder / name, {**changes, "env.toml": manifest})
            to = (folder / "hub").as_uri()
            publish(PublishRequest(environment, to, QUICK, is_quick=True), home, Steps(Silent()))
    return folder


@pytest.fixture
def filled(published: Path, tmp_path: Path, home: dict[str, str]) -> Path:
    """A registry of the test's own with the two environments."""
    for name in ("hub", "config"):
        shutil.copytree(published / name, tmp_path / name)
    return tmp_path / "hub"


def hub_registry(*arguments: str | Path) -> Any:
    result = CliRunner().invoke(_app(), [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def _app() -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.add_typer(commands, name="registry")
    return app


def test_a_new_cheat_is_run_against_everything_and_changes_the_badge(
    tmp_path: Path, filled: Path, home: dict[str, str]
) -> None:
    (tmp_path / "cheat.py").write_text(CHEAT)
    only = ("--add-cheat", tmp_path / "cheat.py", "--only", "ask-nicely", "--limit", "1", "--wall", QUICK.wall)
    said = hub_registry("registry", "audit", filled, *only, "--json")
    assert said.exit_code == 1, said.output
    found = {each["name"]: each for each in json.loads(said.stdout)["packages"]}
    assert {name: each["error"] for name, each in found.items()} == {"lab/words": None, "lab/paid": None}
    assert found["lab/paid"]["audit"]["defective"] == 1
    assert "ask-nicely" in found["lab/paid"]["problems"][0]
    assert found["lab/words"]["problems"] == []
    with open_registry(filled) as kept:
        assert kept.get(PAID).facts.audit is not None
        assert kept.get(PAID).facts.audit["broken"] == ["wrong-accepted"]  # pyright: ignore[reportOptionalSubscript]
        assert kept.get(WORDS).facts.audit["sound"]  # pyright: ignore[reportOptionalSubscript]
    for each in (PAID, WORDS):
        offered = run_async(look_up, filled.as_uri(), VersionRequest.parse(str(each.package)))
        assert offered.audit is not None
        assert offered.audit.key_id == load_key(config_folder(home) / "keys").id
    shown = as_json(
        VersionRequest.parse("lab/paid"), [], run_async(look_up, filled.as_uri(), _any("lab/paid")), None, Pins()
    )
    assert shown["offered"]["chosen"]["registry_audit"]["defective"] == 1
    assert not [*(tmp_path / "temporary").iterdir()]


def test_nothing_that_another_key_said_is_signed_again(tmp_path: Path, filled: Path) -> None:
    """Who can write the folder plants an audit in which all holds, and another that is none."""
    stranger = Key.generate()
    (tmp_path / "cheat.py").write_text(CHEAT)
    cheat = ("--add-cheat", tmp_path / "cheat.py", "--only", "ask-nicely", "--wall", QUICK.wall)
    only = (*cheat, "--limit", "1", "--package", "lab/words")
    layout = Layout(filled)
    with open_registry(filled) as kept:
        digest = kept.get(WORDS).facts.digest
    forged = sign_audit(WORDS, digest, summary("2026-05-01T00:00:00Z", L4="held", L9="held"), stranger)
    for planted in (forged, b"{}"):
        layout.audit(WORDS).write_bytes(planted)
        said = hub_registry("registry", "audit", filled, *only, "--json")
        (found,) = json.loads(said.stdout)["packages"]
        assert found["error"] is None, found
        tried = {each["defect"] for each in found["audit"]["classes"] if each["state"] != "not_tried"}
        assert tried == {"wrong-accepted"}


def _any(name: str) -> VersionRequest:
    return VersionRequest.parse(name)


def summary(at: str, **states: str) -> AuditSummary:
    classes = [
        {
            "defect": name.replace("_", "-"),
            "state": state,
            "tried": int(state != "not_tried"),
            "broke": int(state == "broke"),
        }
        for name, state in states.items()
    ]
    return AuditSummary.model_validate(
        {"at": at, "tasks": 2, "defective": int("broke" in states.values()), "classes": classes}
    )


async def test_pages_api_and_logs_show_the_latest_audit(filled: Path) -> None:
    digest = Layout(filled).bundle(PAID)
    key = Key.generate()
    async with served(filled) as http:
        assert (await http.get("/envhub/v1/packages/lab/paid/1.0.0/audit")).status == 404
        assert "audited" not in (await http.get("/packages/lab/paid")).body.decode()
        with open_registry(filled) as kept:
            digest = kept.get(PAID).facts.digest
            kept.note_audit(PAID, sign_audit(PAID, digest, summary("2026-05-01T00:00:00Z", L4="held"), key))
        assert "audited 2026-05-01" in (await http.get("/packages/lab/paid")).body.decode()
        with open_registry(filled) as kept:
            kept.note_audit(PAID, sign_audit(PAID, digest, summary("2026-06-01T00:00:00Z", L4="broke"), key))
        assert "audit 2026-06-01: L4" in (await http.get("/")).body.decode()
        page = (await http.get("/packages/lab/paid")).body.decode()
        assert (
            "found L4 in 1 classes tried on 2 tasks, 1 of them defective, 2026-06-01, by who keeps the registry" in page
        )
        raw = (await http.get("/envhub/v1/packages/lab/paid/1.0.0/audit")).body
        assert open_audit(raw, PAID, digest).key_id == key.id
        async with open_source(http.url) as source:
            (offer,) = await source.offers(PAID.package)
            assert offer.audit is not None
            assert (offer.audit.sound, offer.audit.broken) == (False, ("L4",))
    async with open_source(filled.as_uri()) as source:
        (offer,) = await source.offers(PAID.package)
        assert offer.audit is not None
        assert offer.audit.broken == ("L4",)


async def test_an_audit_of_something_else_or_changed_is_refused(filled: Path) -> None:
    key = Key.generate()
    with open_registry(filled) as kept:
        digest = kept.get(PAID).facts.digest
        good = sign_audit(PAID, digest, summary("2026-05-01T00:00:00Z", L4="held"), key)
        for wrong in (
            sign_audit(WORDS, digest, summary("2026-05-01T00:00:00Z"), key),
            sign_audit(PAID, "sha256:" + "0" * 64, summary("2026-05-01T00:00:00Z"), key),
            good.replace(b'"sig":"', b'"sig":"AAAA'),
            Layout(filled).statement(PAID).read_bytes(),
            b"{}",
        ):
            with pytest.raises(RegistryRequestRefused):
                kept.note_audit(PAID, wrong)
        with pytest.raises(RegistryRequestRefused, match="not published here"):
            kept.note_audit(Release.parse("lab/other@1.0.0"), good)
    Layout(filled).audit(PAID).write_bytes(sign_audit(PAID, "sha256:" + "1" * 64, summary("2026-05-01T00:00:00Z"), key))
    with open_registry(filled) as kept:  # left out, and not shown
        assert kept.get(PAID).facts.audit is None
    with pytest.raises(SignatureRefused):
        await look_up(filled.as_uri(), _any("lab/paid"))


def test_info_says_that_a_publication_was_not_audited(
    filled: Path,
    hub: Hub,  # noqa: F811
) -> None:
    assert "audit      not audited" in hub("info", "lab/words", "--registry", filled.as_uri()).out


async def test_a_rebuilt_index_and_one_of_a_killed_process_know_the_audit(filled: Path) -> None:
    with open_registry(filled) as kept:
        digest = kept.get(PAID).facts.digest
    raw = sign_audit(PAID, digest, summary("2026-05-01T00:00:00Z", floor="broke"), Key.generate())
    Layout(filled).audit(PAID).write_bytes(raw)
    with open_registry(filled) as kept:
        facts = kept.get(PAID).facts
        assert facts.audit is not None
        assert facts.audit["broken"] == ["floor"]
    assert '"broken":["floor"]' in Layout(filled).versions_file(PAID.package).read_text().splitlines()[-1]


def test_what_a_part_finds_is_added_to_the_audit_before() -> None:
    before = summary("2026-05-01T00:00:00Z", L4="broke", floor="held", flaky="not_tried")
    now = summary("2026-06-01T00:00:00Z", L4="held", floor="broke", oracle="held", flaky="not_tried")
    made = added(before, now)
    assert {each.defect: each.state for each in made.classes} == {
        "L4": "broke", "floor": "broke", "flaky": "not_tried", "oracle": "held",
    }  # fmt: skip
    assert made.at == now.at
    assert made.classes[1] == ClassResult(defect="floor", state="broke", tried=2, broke=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing",), "missing"),
        (("{hub}", "--only", "nonsense"), "nonsense"),
        (("{hub}", "--package", "lab/nobody"), "lab/nobody"),
        (("{hub}", "--add-cheat", "missing.py"), "missing.py"),
        (("{hub}", "--time-limit", "soon"), "soon"),
    ],
    ids=str,
)
def test_bad_options_are_refused(tmp_path: Path, home: dict[str, str], arguments: tuple[str, ...], words: str) -> None:
    with open_registry(tmp_path / "hub"):
        pass
    with pytest.raises(HubError, match=words):
        hub_registry("registry", "audit", *(each.format(hub=tmp_path / "hub") for each in arguments))
