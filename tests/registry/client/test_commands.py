"""What a user types to name, search and trust registries."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, CredentialError, UnknownNameError
from rollouthub_registry.client.client_error import NotPublished, RegistryFault, TokenRefused
from rollouthub_registry.names import Release
from rollouthub_registry.server.atomic_write import open_layout
from rollouthub_registry.server.registry import open_registry
from rollouthub_registry.server.token_hashes import Tokens
from rollouthub_registry.trust.pin_store import TrustStore
from tests.registry.client.commanding import hub, hub_beside
from tests.registry.server.publishers import Publisher
from tests.registry.server.serving import served


@pytest.fixture(autouse=True)
def at_home(home: Path) -> None:
    """All commands are run by a user who has no settings yet."""


def publish(folder: Path, publisher: Publisher, *releases: str) -> str:
    """A registry with these; its URL."""
    with open_registry(folder) as registry:
        for release in map(Release.parse, releases):
            offer = publisher.offer(str(release.package), str(release.version))
            registry.publish(offer.bundle.path, offer.envelope)
    return folder.as_uri()


def test_registries_are_named_listed_and_taken_out() -> None:
    assert hub("registry", "add", "--no-check", "https://hub.example").out == "https://hub.example is asked for *\n"
    added = hub(
        "registry", "add", "--no-check", "https://lab.example", "--namespace", "lab", "--namespace", "team-*", "--json"
    )
    assert added.json == {
        "url": "https://lab.example",
        "namespaces": ["lab", "team-*"],
        "hidden": {"lab": "https://hub.example", "team-*": "https://hub.example"},
    }
    hub("registry", "add", "--no-check", "https://lab.example", "--namespace", "lab", "--first")
    assert hub("registry", "list", "--json").json == {
        "registries": [
            {"url": "https://lab.example", "namespaces": ["lab"], "from": "file"},
            {"url": "https://hub.example", "namespaces": ["*"], "from": "file"},
        ]
    }
    assert hub("registry", "remove", "https://lab.example").out == "https://lab.example is asked no more\n"
    assert "did you mean 'https://hub.example'?" in hub("registry", "remove", "https://hub.exampl").complaint


def test_who_adds_a_registry_that_is_never_asked_is_told() -> None:
    hub("registry", "add", "--no-check", "https://hub.example")
    done = hub("registry", "add", "--no-check", "https://lab.example", "--namespace", "lab")
    assert "lab still comes from https://hub.example, which is before it; --first puts this one there" in done.err


def test_what_is_no_registry_is_not_added_unless_told(home: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "things").mkdir(parents=True)
    other, down, new = (tmp_path / "other").as_uri(), "http://127.0.0.1:9", (tmp_path / "new").as_uri()
    slip, fault = hub("registry", "add", other), hub("registry", "add", down)
    assert isinstance(slip.error, ConfigError) and "is no registry" in slip.complaint
    assert isinstance(fault.error, RegistryFault) and "cannot be reached" in fault.complaint
    assert "--no-check adds it nevertheless" in slip.complaint and "--no-check" in fault.complaint
    assert not home.exists()
    assert "the first `hub publish` there makes one" in hub("registry", "add", new).err
    hub("registry", "add", down, "--no-check")
    changed = hub("registry", "add", down, "--namespace", "lab")  # it is in the list: only its patterns change
    assert changed.out == f"{down} is asked for lab; before: *\n"


def test_the_registry_of_the_environment_is_listed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUTHUB_REGISTRY", "https://last.example")
    hub("registry", "add", "--no-check", "https://hub.example")
    assert [row["from"] for row in hub("registry", "list", "--json").json["registries"]] == [
        "file",
        "ROLLOUTHUB_REGISTRY",
    ]
    assert "by $ROLLOUTHUB_REGISTRY" in hub("registry", "list").out


def test_a_url_with_a_password_is_not_kept(home: Path) -> None:
    for words in (["registry", "add"], ["login"], ["search", "--registry"]):
        done = hub(*words, "https://someone:geheim@hub.example")
        assert isinstance(done.error, ConfigError) and "geheim" not in done.complaint
    assert not home.exists() or not list(home.glob("*.toml"))


def test_a_search_of_what_is_no_registry_is_a_slip(tmp_path: Path, home: Path) -> None:
    done = hub("search", "dice", "--registry", (tmp_path / "none").as_uri())
    assert done.code == 2 and "there is no such folder; check the path" in done.err
    for command in (["search"], ["info", "lab/dice"], ["yank", "lab/dice@1.0.0", "--reason", "x"]):
        assert "the URL of the registry is empty" in hub(*command, "--registry", "").complaint


def test_a_search_shows_what_was_found_and_where(folder: Path) -> None:
    done = hub("search", "luck", "--registry", folder.as_uri())
    header, dice, cards = done.out.splitlines()
    assert header.split() == ["environment", "version", "checks", "difficulty", "what", "it", "is", "from"]
    assert dice.split() == ["lab/dice", "1.10.0", "passed", "Throw", "some", "dice.", folder.as_uri()]
    assert cards.split()[:4] == ["lab/cards", "1.0.0", "failed", "0.75"]
    assert done.code == 0


def test_a_search_without_a_registry_says_how_to_name_one() -> None:
    assert "`hub registry add URL` names one" in hub("search", "dice").complaint


def test_a_search_that_finds_nothing_says_so(folder: Path) -> None:
    done = hub("search", "chess", "--registry", folder.as_uri())
    assert (done.code, done.out, done.err) == (0, "", "nothing was found\n")


def test_a_misspelt_order_is_guessed(folder: Path) -> None:
    done = hub("search", "--sort", "dowloads", "--registry", folder.as_uri())
    assert isinstance(done.error, UnknownNameError) and "did you mean 'downloads'?" in done.complaint


def test_all_registries_are_searched_and_one_that_is_down_is_named(
    folder: Path, tmp_path: Path, publisher: Publisher
) -> None:
    other = publish(tmp_path / "other", publisher, "lab/dice@9.0.0", "else/dice@1.0.0")
    down = "http://127.0.0.1:9"  # the port of a service that is nowhere any more
    hub("registry", "add", folder.as_uri(), "--namespace", "lab")
    hub("registry", "add", "--no-check", down, "--namespace", "gone")
    hub("registry", "add", other)
    done = hub("search", "dice", "--json")
    assert done.code == 1
    keys = ("name", "version", "from", "is_namespace_source")
    told = [tuple(each[key] for key in keys) for each in done.json["results"]]
    assert told == [
        ("lab/dice", "1.10.0", folder.as_uri(), True),
        ("else/dice", "1.0.0", other, True),
        ("lab/dice", "9.0.0", other, False),
    ]
    (failure,) = done.json["failures"]
    assert failure["registry"] == down and "cannot be reached" in failure["error"]
    shown = hub("search", "dice")
    assert shown.code == 1 and down in shown.err
    assert shown.out.count("its namespace comes from elsewhere") == 1


def test_a_package_is_told_about(folder: Path, publisher: Publisher, home: Path) -> None:
    hub("registry", "add", folder.as_uri())
    told = hub("info", "lab/cards", "--json").json
    chosen = told["offered"]["chosen"]
    assert (told["installed"], told["pinned_keys"], told["problem"]) == ([], [], None)
    assert {key: chosen[key] for key in ("version", "key_id", "key", "checks_passed", "difficulty", "secrets")} == {
        "version": "1.0.0",
        "key_id": publisher.key_id,
        "key": "not pinned yet",
        "checks_passed": False,
        "difficulty": 0.75,
        "secrets": [],
    }
    assert chosen["size"] == (folder / "packages/lab/cards/1.0.0/bundle.envhub").stat().st_size
    text = hub("info", "lab/cards").out
    for said in ("FAILED", "0.250 by mock/solver over 40 samples", "MIT", publisher.key_id, "not pinned yet"):
        assert said in text


ADOPTED = """\
name = "else/chess"
version = "1.0.0"
description = "Somebody else's chess."
license = "MIT"
[server]
command = ["server"]
[tasks]
test = "tasks.jsonl"
[verifier]
url = "https://example.org/verify"
token_variable = "TOKEN"
[adopted_from]
source = "https://example.org/chess"
unpromised = ["episodes side by side: they share a board"]
"""


def test_what_is_not_promised_is_told(folder: Path, publisher: Publisher, home: Path) -> None:
    offer = publisher.offer_of(ADOPTED)
    with open_registry(folder) as registry:
        registry.publish(offer.bundle.path, offer.envelope)
    hub("registry", "add", folder.as_uri())
    line = "episodes side by side: they share a board"
    assert hub("info", "else/chess", "--json").json["offered"]["chosen"]["unpromised"] == [line]
    assert f"unpromised {line}" in hub("info", "else/chess").out
    assert hub("info", "lab/cards", "--json").json["offered"]["chosen"]["unpromised"] == []


def test_a_key_is_told_to_be_the_pinned_one_or_not(folder: Path, publisher: Publisher, home: Path) -> None:
    hub("registry", "add", folder.as_uri())
    hub("trust", "add", "lab", publisher.key_id)
    assert hub("info", "lab/cards", "--json").json["offered"]["chosen"]["key"] == "pinned"
    hub("trust", "add", "lab", "0" * 64)
    assert "(not the pinned one)" in hub("info", "lab/cards").out


def test_versions_are_told_with_why_they_are_yanked(folder: Path) -> None:
    hub("registry", "add", folder.as_uri())
    told = hub("info", "lab/dice", "--json").json["offered"]
    assert told["chosen"]["version"] == "1.10.0"
    assert [(each["version"], each["yanked"]) for each in told["versions"]] == [
        ("2.0.0", "the dice were loaded"),
        ("1.10.0", None),
        ("1.2.0", None),
        ("1.0.0", None),
    ]
    assert hub("info", "lab/dice@^1.0,<1.10", "--json").json["offered"]["chosen"]["version"] == "1.2.0"
    assert "yanked: the dice were loaded" in hub("info", "lab/dice@2.0.0").out
    assert "there is 1.10.0, 1.2.0, 1.0.0" in hub("info", "lab/dice@3.0.0").complaint


def test_a_package_is_only_ever_told_of_by_its_namespaces_own_registry(
    folder: Path, tmp_path: Path, publisher: Publisher
) -> None:
    other = publish(tmp_path / "other", publisher, "lab/dice@9.0.0", "lab/chess@1.0.0")
    hub("registry", "add", folder.as_uri(), "--namespace", "lab")
    hub("registry", "add", other)
    told = hub("info", "lab/dice", "--json").json["offered"]
    assert (told["from"], told["chosen"]["version"]) == (folder.as_uri(), "1.10.0")
    missing = hub("info", "lab/chess")
    assert isinstance(missing.error, NotPublished)
    assert missing.complaint == f"lab/chess is not published at {folder.as_uri()}"
    assert hub("info", "lab/chess", "--registry", other).code == 0


def test_a_misspelt_package_is_guessed(folder: Path) -> None:
    hub("registry", "add", folder.as_uri())
    for name in ("lab/dices", "lap/dice", "lab/dcie"):
        assert "did you mean 'lab/dice'?" in hub("info", name).complaint
    assert "has no namespace; write namespace/name" in hub("info", "dice").complaint


def test_a_version_is_yanked_in_a_folder(folder: Path) -> None:
    hub("registry", "add", folder.as_uri())
    assert hub("yank", "lab/dice@1.10.0", "--reason", "too lucky").code == 0
    told = hub("info", "lab/dice", "--json").json["offered"]
    assert (told["chosen"]["version"], told["versions"][1]["yanked"]) == ("1.2.0", "too lucky")
    assert isinstance(hub("yank", "lab/dice@8.0.0", "--reason", "none").error, NotPublished)
    assert "has no version" in hub("yank", "lab/dice", "--reason", "all").complaint
    assert "--reason says why" in hub("yank", "lab/dice@1.0.0", "--reason", " ").complaint


def test_keys_are_pinned_listed_and_forgotten(home: Path) -> None:
    one, two = "1" * 64, "2" * 64
    assert "no key is pinned yet" in hub("trust", "list").err
    assert hub("trust", "add", "lab", one).out == f"lab is pinned to {one}\n"
    assert hub("trust", "add", "lab", two, one, "--json").json == {
        "namespace": "lab",
        "keys": [two, one],
        "before": [one],
    }
    assert TrustStore(home).pins().namespaces == {"lab": (two, one)}
    assert hub("trust", "list", "--json").json == {"namespaces": {"lab": [two, one]}, "unwalled": {}}
    assert "did you mean 'lab'?" in hub("trust", "list", "lap").complaint
    assert "did you mean 'lab'?" in hub("trust", "remove", "lap").complaint
    assert hub("trust", "remove", "lab").code == 0
    assert TrustStore(home).pins().namespaces == {}
    assert "no id of a key" in hub("trust", "add", "lab", "geheim").complaint


async def test_a_login_asks_what_the_token_is_for_and_keeps_it(folder: Path, home: Path) -> None:
    async with served(folder) as up:
        token = up.token("lab", "publish", "yank")
        done = await hub_beside("login", up.url, "--token-stdin", stdin=f"{token}\n")
        assert done.out.endswith(f"is kept for {up.url}: to publish and yank in the namespace lab\n")
        assert token not in done.out + done.err
        yanked = await hub_beside("yank", "lab/dice@1.0.0", "--reason", "old", "--registry", up.url)
        assert yanked.code == 0
        assert (await hub_beside("login", up.url, "--logout")).out == f"the token for {up.url} is forgotten\n"
        refused = await hub_beside("yank", "lab/dice@1.2.0", "--reason", "old", "--registry", up.url)
        assert isinstance(refused.error, TokenRefused) and f"run `hub login {up.url}`" in refused.complaint


async def test_a_login_with_a_token_that_the_server_does_not_know_keeps_nothing(folder: Path, home: Path) -> None:
    async with served(folder) as up:
        token, text = Tokens(open_layout(folder).tokens).create("lab", ("publish",))
        Tokens(open_layout(folder).tokens).revoke(token.token_id)
        for wrong in (text, "envhub_000000000000_" + "a" * 43, "geheim"):
            done = await hub_beside("login", up.url, "--token-stdin", stdin=wrong)
            assert isinstance(done.error, TokenRefused) and wrong not in done.complaint
        assert token_files(home) == []


def token_files(home: Path) -> list[Path]:
    """Where tokens are kept."""
    return list(home.glob("tokens.json"))


def test_a_login_needs_somebody_to_ask_a_server_and_a_token() -> None:
    assert "--token-stdin" in hub("login", "http://127.0.0.1:9").complaint
    assert "needs no token" in hub("login", "file:///srv/hub").complaint
    assert isinstance(hub("login", "http://127.0.0.1:9", "--token-stdin", stdin="\n").error, CredentialError)


def test_a_token_is_not_sent_unencrypted_to_another_machine() -> None:
    done = hub("login", "http://hub.example", "--token-stdin", stdin="rollouthub_geheim")
    assert (
        isinstance(done.error, CredentialError) and "unencrypted" in done.complaint and "geheim" not in done.complaint
    )
