"""What is refused, each through the command: with the reason, the right exit code, and nothing written."""

import json
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tarfile import TarInfo

import anyio
import pytest

from tests.registry.bundle.packages import bomb_bytes, member, plain_members, write_archive
from tests.registry.install.wheels import write_wheel
from tests.registry.install_flow.machines import Machine, Shop, declared, shop

WORDS = "lab/words@1.0.0"


def refused(user: Machine, *words: str, says: tuple[str, ...], code: int = 2) -> None:
    """See that a command is refused, and leaves everything as it was."""
    user.variables()
    before = user.files()
    user.hub(*words).refused(*says, code=code)
    assert user.files() == before


def flipped(place: int) -> Callable[[bytes], bytes]:
    """One byte changed."""

    def change(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[place] ^= 0x01
        return bytes(changed)

    return change


REGIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip header": flipped(3),
    "tar header": flipped(60),
    "manifest": flipped(15 + 512 + 12),
    "padding": flipped(-1100),
    "cut": lambda content: content[:-700],
    "more": lambda content: content + b"x",
}


@pytest.mark.parametrize("change", REGIONS.values(), ids=REGIONS)
def test_a_changed_archive_is_refused(user: Machine, lab: Shop, change: Callable[[bytes], bytes]) -> None:
    lab.publish("lab/words")
    lab.change(WORDS, "bundle.envhub", change)
    refused(user, "install", "lab/words", "--registry", lab.url, says=(f"the bundle of {WORDS} from", "is refused"))


def test_another_archive_than_was_signed_is_refused(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    other = lab.publisher.build("lab/words", "1.0.0", "Something else.")
    lab.change(WORDS, "bundle.envhub", lambda _: other.path.read_bytes())
    lab.tell(WORDS, digest=other.digest)
    refused(user, "install", "lab/words", "--registry", lab.url, says=("not the one that was signed",))


def test_a_wrong_signature_is_refused(user: Machine, lab: Shop) -> None:
    offer = lab.publish("lab/words")
    held = json.loads(offer.envelope)
    first = held["signatures"][0]
    first["sig"] = ("A" if first["sig"][0] != "A" else "B") + first["sig"][1:]
    lab.change(WORDS, "statement.dsse.json", lambda _: json.dumps(held).encode())
    refused(user, "install", "lab/words", "--registry", lab.url, says=("signature is not of the key",))


@pytest.mark.parametrize("other", ["lab/other@1.0.0", "lab/words@1.1.0"])
def test_the_statement_of_another_release_is_refused(user: Machine, lab: Shop, other: str) -> None:
    lab.publish("lab/words")
    stranger = lab.publish(*other.split("@"))
    lab.change(WORDS, "statement.dsse.json", lambda _: stranger.envelope)
    refused(user, "install", WORDS, "--registry", lab.url, says=("the statement speaks of", other))


def test_a_registry_that_went_back_in_time_is_refused(user: Machine, lab: Shop, tmp_path: Path) -> None:
    lab.publish("lab/words")
    rolled = replace(lab, root=tmp_path / "rolled")
    rolled.publish("lab/words")
    lab.publish("lab/words", "1.1.0")
    user.hub("install", "lab/words", "--registry", lab.url).went_well()
    user.hub("remove", "lab/words").went_well()
    refused(user, "install", "lab/words", "--registry", rolled.url, says=("may be replayed", "1.1.0", WORDS))
    user.hub("install", WORDS, "--registry", rolled.url).went_well()


def test_an_old_version_within_a_range_is_none_that_is_replayed(user: Machine, lab: Shop) -> None:
    for version in ("1.0.0", "1.1.0", "2.0.0"):
        lab.publish("lab/words", version)
    user.hub("install", "lab/words@2", "--registry", lab.url).went_well()
    user.hub("install", "lab/words@^1", "--registry", lab.url).went_well()
    assert user.versions() == ["lab/words@1.1.0", "lab/words@2.0.0"]


def test_other_bytes_under_a_known_version_are_refused(user: Machine, lab: Shop, tmp_path: Path) -> None:
    lab.publish("lab/words")
    user.hub("install", "lab/words", "--registry", lab.url).went_well()
    user.hub("remove", "lab/words").went_well()
    other = replace(lab, root=tmp_path / "other")
    other.publish("lab/words", description="Something else.")
    refused(user, "install", WORDS, "--registry", other.url, says=("a version never changes",))


def test_a_changed_key_is_refused_until_it_is_trusted(user: Machine, lab: Shop, tmp_path: Path) -> None:
    lab.publish("lab/words")
    user.hub("install", WORDS, "--registry", lab.url).went_well()
    stranger = shop(tmp_path, "stranger")
    stranger.publish("lab/words", "1.1.0")
    again = ("install", "lab/words@latest", "--registry", stranger.url)
    key = stranger.publisher.key_id
    refused(user, *again, says=("the key of 'lab' changed", f"hub trust add lab {key}"))
    user.hub("trust", "add", "lab", key).went_well()
    user.hub(*again).went_well()
    assert user.versions() == [WORDS, "lab/words@1.1.0"]


HOSTILE = {
    "a path upwards": member("../../evil.py", b"x"),
    "an absolute path": member("/evil.py", b"x"),
    "a symbolic link": member("link", type=b"2", linkname="/etc/passwd"),
    "a hard link": member("link", type=b"1", linkname="env.toml"),
    "a device": member("null", type=b"3", devmajor=1, devminor=3),
}


@pytest.mark.parametrize("entry", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_entry_of_an_archive_is_refused(
    user: Machine, lab: Shop, tmp_path: Path, entry: tuple[TarInfo, bytes]
) -> None:
    lab.publish("lab/words")
    members = sorted([*plain_members(), entry], key=lambda each: each[0].name)
    lab.pass_off(WORDS, write_archive(tmp_path / "hostile", members))
    refused(user, "install", "lab/words", "--registry", lab.url, says=("is refused",))


def test_a_bomb_is_refused(user: Machine, lab: Shop, tmp_path: Path) -> None:
    lab.publish("lab/words")
    (tmp_path / "bomb").write_bytes(bomb_bytes())
    lab.pass_off(WORDS, tmp_path / "bomb")
    refused(user, "install", "lab/words", "--registry", lab.url, says=("is refused",))


def test_a_package_of_another_name_in_the_archive_is_refused(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    other = lab.publisher.build("bank/words", "1.0.0", "An environment.")
    lab.pass_off(WORDS, other.path)
    refused(user, "install", "lab/words", "--registry", lab.url, says=("bank/words@1.0.0",))


def test_another_manifest_than_was_signed_is_refused(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    other = lab.publisher.build("lab/words", "1.0.0", "Needs your keys.", ["tag"])
    content = other.path.read_bytes()
    lab.publisher.offer("lab/words")  # puts the honest bundle back, which the statement is made of
    other.path.with_name("kept").write_bytes(content)
    lab.pass_off(WORDS, other.path.with_name("kept"))
    refused(user, "install", "lab/words", "--registry", lab.url, says=("the manifest that was signed",))


def test_a_yanked_version_is_passed_over_and_refused_by_name(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    lab.publish("lab/words", "1.1.0")
    lab.yank("lab/words@1.1.0", "it leaks\x1b[31m answers")
    said = user.hub("install", "lab/words@1.1.0", "--registry", lab.url).refused("yanked", "leaks", "lab/words@1.0.0")
    assert "\x1b[31m" not in said
    passed = user.hub("install", "lab/words", "--registry", lab.url)
    assert passed.code == 0 and "lab/words@1.1.0 is passed over: it was yanked" in passed.err
    assert user.versions() == [WORDS]


def test_a_package_that_another_registry_offers_too_is_not_taken_from_there(
    user: Machine, lab: Shop, tmp_path: Path
) -> None:
    lab.publish("lab/words")
    other = replace(lab, root=tmp_path / "other")
    other.publish("lab/words", "9.0.0")
    user.hub("install", "lab/words", "--registry", lab.url).went_well()
    settings = user.home / "config" / "rollouthub" / "registries.toml"
    settings.write_text(f'[[registry]]\nurl = "{other.url}"\n')
    for words in ("lab/words", "lab/words@latest", "lab/words@^9"):
        refused(
            user,
            "install",
            words,
            says=("does not change its source", f"--registry {lab.url}", f"--registry {other.url}"),
        )
    assert user.hub("upgrade", "--json").json["environments"][0]["version"] == "1.0.0"
    user.hub("install", "lab/words@latest", "--registry", other.url).went_well()
    assert user.versions() == [WORDS, "lab/words@9.0.0"]


def test_a_registry_that_lacks_a_package_is_not_stood_in_for(user: Machine, lab: Shop, tmp_path: Path) -> None:
    lab.publish("lab/words")
    first = shop(tmp_path, "first")
    first.publish("lab/letters")
    user.variables()
    settings = user.home / "config" / "rollouthub" / "registries.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[[registry]]\nurl = "{first.url}"\n\n[[registry]]\nurl = "{lab.url}"\n')
    refused(user, "install", "lab/words", says=("not published", first.url))


def test_what_failed_its_checks_needs_a_word(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words", passed=False)
    refused(user, "install", "lab/words", "--registry", lab.url, says=("failed its checks", "--allow-failing-checks"))
    lab.tell(WORDS, quality={"checks_passed": True})  # what is signed counts
    refused(user, "install", "lab/words", "--registry", lab.url, says=("failed its checks", "--allow-failing-checks"))
    done = user.hub("install", "lab/words", "--registry", lab.url, "--allow-failing-checks", "--json").json
    assert done["environments"][0]["checks_passed"] is False


def test_a_version_for_another_hub_is_refused(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    lab.tell(WORDS, contract=7)
    refused(user, "install", "lab/words", "--registry", lab.url, says=("contract 7",))


def test_a_registry_that_is_not_there_is_no_mistake_of_the_user(user: Machine) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        refused(user, "install", "lab/words", "--registry", url, says=(url,), code=1)


def test_a_home_that_cannot_be_written_is_told(user: Machine, lab: Shop) -> None:
    lab.publish("lab/words")
    user.variables()
    (user.home / "data").write_text("no folder")
    refused(user, "install", "lab/words", "--registry", lab.url, says=("cannot be", str(user.home / "data")))


async def test_a_killed_install_leaves_nothing_to_use_and_the_next_one_works(
    user: Machine, lab: Shop, tmp_path: Path
) -> None:
    folder = declared(tmp_path / "words", more="")
    manifest = folder / "env.toml"
    manifest.write_text(manifest.read_text().replace("[tasks]", 'requirements = ["tinydep>=1"]\n\n[tasks]'))
    links = tmp_path / "links"
    write_wheel(links, "tinydep", "1.0.0")
    with socket.create_server(("127.0.0.1", 0)) as index:
        url = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        process = user.start("install", str(folder), UV_DEFAULT_INDEX=url, UV_OFFLINE="0")
        with anyio.fail_after(30):
            await anyio.wait_readable(index)  # asked, and never answered
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert list(user.installed.rglob("*.partial")) != []
    assert user.versions() == []
    offline = {"UV_FIND_LINKS": str(links), "UV_DEFAULT_INDEX": (tmp_path / "no-index").as_uri()}
    done = user.hub("install", str(folder), "--json", **offline).json
    assert done["environments"][0]["dependencies"] is not None
    assert user.versions() == [WORDS]
    assert list(user.installed.rglob("*.partial")) == []
