"""What is refused: when a folder is bundled, and again when an archive is read; nothing is written either time."""

import contextlib
import gzip
import os
import socket
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouthub.store.folders import remove_folder
from rollouthub_registry.bundle import file_selection as collecting
from rollouthub_registry.bundle import wheel as wheels
from rollouthub_registry.bundle.bundle import Bundle, build_bundle, extract, open_bundle
from rollouthub_registry.bundle.bundle_error import BundleRefused
from tests.registry.bundle.packages import (
    FILES,
    MANIFEST,
    bomb_bytes,
    compressed,
    member,
    plain_members,
    stored,
    tar_bytes,
    wheel_bytes,
    write_archive,
    write_package,
)

PEM = "-----BEGIN " + "PRIVATE KEY-----\nMC4CAQ\n"
WHEEL = "wheel/words-1.2.0-py3-none-any.whl"


def refuse_build(folder: Path, said: str) -> None:
    """See that a folder is refused with these words and that nothing was written."""
    out = folder.parent / "out"
    with pytest.raises(BundleRefused, match=said):
        build_bundle(folder, out)
    assert not out.exists()


def refuse_reading(file: Path, said: str) -> None:
    """See that an archive is refused, also by who unpacks it unread, and that nothing is left."""
    with pytest.raises(BundleRefused, match=said):
        open_bundle(file)
    honest = build_bundle(write_package(file.parent / "honest"), file.parent / "honest-out")
    unread = Bundle(file, honest.digest, honest.size, honest.manifest, honest.release, honest.files)
    target = file.parent / "target" / "words"
    with contextlib.suppress(FileNotFoundError):
        target.parent.rmdir()
    with pytest.raises(BundleRefused):
        extract(unread, target)
    assert list(target.parent.iterdir()) == []


def test_folders_deeper_than_python_can_call_itself_are_one_sentence(tmp_path: Path) -> None:
    package = write_package(tmp_path / "words")
    folder = os.open(package, os.O_RDONLY)
    for _ in range(1300):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    refuse_build(package, "is deeper than 16 folders")
    remove_folder(package)


SECRETS = {
    ".env": "A=1",
    "sub/.env.production": "A=1",
    "certs/server.pem": "x",
    "id_rsa": "x",
    "ID_ED25519": "x",
    ".netrc": "x",
    "notes.md": "the key:\n" + PEM,
    "old.txt": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "aws.txt": "AKIA" + "ABCDEFGHIJKLMNOP",
    "model.py": 'key = "sk-' + 'proj-abcDEF0123456789abcDEF0123456789"',
    "claude.txt": "sk-" + "ant-api03-abcDEF0123456789abcDEF0123456789",
    "ci.yml": "ghp_" + "a1B2" * 9,
    "hf.txt": "hf_" + "abcdefghijABCDEFGHIJabcdefghijABCD",
    "google.txt": "AIza" + "SyA1234567890abcdefghijklmnopqrstuvwx"[:35],
    "slack.txt": "xoxb-" + "123456789012-abcdefghijkl",
}


@pytest.mark.parametrize("path", SECRETS)
def test_a_secret_is_refused_by_name_and_never_repeated(path: str, tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words", **{path: SECRETS[path]})
    with pytest.raises(BundleRefused, match=r"holds .*remove it, or name it in \.hubignore") as refused:
        build_bundle(folder, tmp_path / "out")
    assert repr(path) in str(refused.value)
    assert SECRETS[path][-12:] not in str(refused.value)
    archive = write_archive(
        tmp_path / "x.envhub", sorted([*plain_members(), member(path, SECRETS[path].encode())], key=by_path)
    )
    refuse_reading(archive, "holds")


def test_a_secret_across_two_chunks_is_seen(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words", **{"large.txt": "x" * (2**20 - 20) + PEM})
    refuse_build(folder, "'large.txt' holds what looks like a private key")


def test_an_ignored_secret_stays_out(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words", **{".env": "A=1", ".hubignore": ".env\n"})
    assert ".env" not in build_bundle(folder, tmp_path).files


@pytest.mark.parametrize("text", ["risk-assessment-of-things-2024-and-more", "AKIAIOSFODNN7EXAMPLE", "sk-learn sk-1"])
def test_words_that_only_begin_like_keys_pass(text: str, tmp_path: Path) -> None:
    build_bundle(write_package(tmp_path / "words", **{"text.md": text, ".env.example": "A="}), tmp_path)


def _symlink(folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")


def _folder_link(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent, target_is_directory=True)


def _hard_link(folder: Path) -> None:
    (folder.parent / "elsewhere").write_text("x")
    (folder / "link").hardlink_to(folder.parent / "elsewhere")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _socket(folder: Path) -> None:
    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as listener:
        listener.bind("door")


BUILDS: dict[str, Callable[[Path], None]] = {
    "'link' is a symbolic link": _symlink,
    "'link' is a symbolic link;": _folder_link,
    "'link' is a hard link": _hard_link,
    "'pipe' is a pipe": _pipe,
    "'door' is a socket": _socket,
}


@pytest.mark.parametrize("said", BUILDS)
def test_what_is_no_plain_file_is_not_bundled(said: str, tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words")
    BUILDS[said](folder)
    refuse_build(folder, said)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a\nb", "control or invisible"),
        ("a\u202eb", "control or invisible"),
        ("con.txt", "device on Windows"),
        ("sub/NUL", "device on Windows"),
        ("a:b", "Windows does not allow"),
        ("a\\b", "Windows does not allow"),
        ("end.", "ends with a dot"),
        ("end /x", "begins or ends with a space"),
        ("e\u0301", "NFC"),
        ("x" * 201, "longer than 200"),
        ("/".join("a" * 17), "deeper than 16"),
        ("SERVER.py", "one where case does not count"),
        ("Data/other.txt", "one where case does not count"),
    ],
)
def test_names_that_are_not_the_same_everywhere_are_refused(path: str, said: str, tmp_path: Path) -> None:
    refuse_build(write_package(tmp_path / "words", **{path: "x"}), said)
    if len(path.encode()) <= 100:
        members = sorted([*plain_members(), member(path, b"x")], key=by_path)
        refuse_reading(write_archive(tmp_path / "x.envhub", members), said)


def test_a_setup_script_is_refused(tmp_path: Path) -> None:
    refuse_build(write_package(tmp_path / "words", **{"setup.py": "import this"}), "'setup.py' would run code")
    members = sorted([*plain_members(), member("setup.py", b"import this")], key=by_path)
    refuse_reading(write_archive(tmp_path / "x.envhub", members), "'setup.py' would run code")


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("FILE_BYTES", 60, "has .* bytes; a file may have 60"),
        ("FILES", 4, "more than 4 files"),
        ("TOTAL_BYTES", 100, "more than 100 bytes together"),
    ],
)
def test_what_is_too_much_is_refused(
    limit: str, value: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_archive(tmp_path / "x.envhub", plain_members())
    folder = write_package(tmp_path / "words")
    with monkeypatch.context() as patched:
        patched.setattr(collecting, limit, value)
        refuse_build(folder, said)
        with pytest.raises(BundleRefused, match=said):
            open_bundle(archive)


def by_path(entry: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """The order of a bundle's files."""
    return entry[0].name.encode()


ENTRIES: dict[str, tuple[tarfile.TarInfo, bytes]] = {
    "could lead out": member("../escape.txt", b"x"),
    "could lead out of": member("a/../../escape.txt", b"x"),
    "is absolute": member("/etc/escape.txt", b"x"),
    "could lead out of the": member("./escape.txt", b"x"),
    "is a symbolic link": member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "is a hard link": member("link", type=tarfile.LNKTYPE, linkname="env.toml"),
    "is a device": member("dev", type=tarfile.CHRTYPE),
    "is a device;": member("dev", type=tarfile.BLKTYPE),
    "is a pipe": member("pipe", type=tarfile.FIFOTYPE),
    "is a folder": member("folder", type=tarfile.DIRTYPE),
    "is no plain file": member("long", b"x", type=tarfile.GNUTYPE_LONGNAME),
    "is a sparse": member("sparse", b"x", type=tarfile.GNUTYPE_SPARSE),
    "is there twice": member("env.toml", MANIFEST.encode()),
    "header of 'mode' is not": member("mode", b"x", mode=0o4755),
    "header of 'owner' is not": member("owner", b"x", uid=1000),
    "header of 'named' is not": member("named", b"x", uname="root"),
    "header of 'time' is not": member("time", b"x", mtime=1),
}


@pytest.mark.parametrize("said", ENTRIES)
def test_an_entry_that_no_build_makes_is_refused(said: str, tmp_path: Path) -> None:
    members = sorted([*plain_members(), ENTRIES[said]], key=by_path)
    refuse_reading(write_archive(tmp_path / "x.envhub", members), said)


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "does not begin like": lambda: b"PK\x03\x04 a zip",
    "cut short in its header": lambda: b"",
    "gzip header is not": lambda: gzip.compress(b"x", mtime=5),
    "is compressed": lambda: compressed(tar_bytes(plain_members())),
    "not in the order": lambda: stored(tar_bytes(plain_members()[::-1])),
    "after the archive's end": lambda: stored(tar_bytes(plain_members(), bytes(10_240))),
    "after the archive's": lambda: stored(tar_bytes(plain_members())) + b"more",
    "after the archive": lambda: stored(tar_bytes(plain_members())) + stored(tar_bytes(plain_members())),
    "is cut short": lambda: stored(tar_bytes(plain_members(), b"")),
    "does not end as": lambda: stored(tar_bytes(plain_members(), bytes(512) + b"x" * 512)),
    "hidden after 'data": lambda: stored(tar_bytes(plain_members()).replace(b"vu\n\0", b"vu\nx", 1)),
    "holds no env.toml": lambda: stored(tar_bytes([member("a", b"x")])),
    r"env\.toml:1: there is no key 'nome'": lambda: stored(tar_bytes([member("env.toml", b"nome = 1\n")])),
    r"env\.toml:3: there is no key 'hooks'": lambda: stored(
        tar_bytes([member("env.toml", MANIFEST.replace("\n[server]", 'hooks = "x"\n[server]').encode())])
    ),
    "is no version": lambda: stored(tar_bytes([member("env.toml", MANIFEST.replace("1.2.0", "1.2.0.dev1").encode())])),
}


@pytest.mark.parametrize("said", ARCHIVES)
def test_an_archive_that_no_build_makes_is_refused(said: str, tmp_path: Path) -> None:
    file = tmp_path / "x.envhub"
    file.write_bytes(ARCHIVES[said]())
    with pytest.raises(BundleRefused, match=said):
        open_bundle(file)


def test_a_bomb_is_refused_before_it_unpacks(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.envhub"
    bomb.write_bytes(bomb_bytes())
    tracemalloc.start()
    try:
        refuse_reading(bomb, "is compressed")
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_a_bomb_in_a_wheel_is_refused_before_it_unpacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "FILE_BYTES", 10_000)
    folder = write_package(tmp_path / "words")
    (folder / "wheel").mkdir()
    (folder / WHEEL).write_bytes(wheel_bytes({"words/zeros": "\0" * 10**6}))
    refuse_build(folder, "unpacks to more than 10,000 bytes")


def test_an_archive_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = build_bundle(write_package(tmp_path / "words"), tmp_path).path.read_bytes()
    file = tmp_path / "cut.envhub"
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        file.write_bytes(whole[:length])
        with pytest.raises(BundleRefused):
            open_bundle(file)


HONEST = stored(tar_bytes(plain_members()))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, len(HONEST) - 1), change=st.integers(1, 255))
def test_every_changed_byte_is_refused(place: int, change: int, tmp_path: Path) -> None:
    tampered = bytearray(HONEST)
    tampered[place] ^= change
    file = tmp_path / "tampered.envhub"
    file.write_bytes(tampered)
    with pytest.raises(BundleRefused):
        open_bundle(file)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=3000), as_tar=st.booleans())
def test_any_bytes_are_refused_with_our_own_error(content: bytes, as_tar: bool, tmp_path: Path) -> None:
    file = tmp_path / "any.envhub"
    file.write_bytes(stored(content or b"x") if as_tar else content)
    with pytest.raises(BundleRefused):
        open_bundle(file)


def test_the_honest_archive_of_these_tests_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "honest.envhub"
    file.write_bytes(HONEST)
    assert open_bundle(file).files == tuple(sorted(FILES))


def _linked(archive: zipfile.ZipFile) -> None:
    link = zipfile.ZipInfo("words/link")
    link.external_attr = 0o120777 << 16
    archive.writestr(link, "/etc/passwd")


def _twice(archive: zipfile.ZipFile) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("words/__init__.py", "other")


WHEELS: dict[str, Callable[[], bytes]] = {
    "runs at every start": lambda: wheel_bytes({"words.pth": "import os"}),
    "'sitecustomize.py', which runs": lambda: wheel_bytes({"sitecustomize.py": "import os"}),
    "purelib/x.pth', which runs": lambda: wheel_bytes({"words-1.2.0.data/purelib/x.pth": "import os"}),
    "could lead out": lambda: wheel_bytes({"../escape.py": "x"}),
    "is absolute": lambda: wheel_bytes({"/etc/escape.py": "x"}),
    "holds the symbolic link": lambda: wheel_bytes(change=_linked),
    "is there twice": lambda: wheel_bytes(change=_twice),
    "are not in": lambda: wheel_bytes({"other-1.0.dist-info/METADATA": "x"}),
    "cannot be read": lambda: b"no zip",
    "the wheel": lambda: wheel_bytes({"QQQQ": "a name of nothing"}).replace(b"QQQQ", b"\0QQQ"),
    "is a file that holds secrets": lambda: wheel_bytes({"words/.env": "x"}),
}


@pytest.mark.parametrize("said", WHEELS)
def test_a_wheel_that_could_harm_is_refused(said: str, tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words")
    (folder / "wheel").mkdir()
    (folder / WHEEL).write_bytes(WHEELS[said]())
    refuse_build(folder, said)
    members = sorted([*plain_members(), member(WHEEL, (folder / WHEEL).read_bytes())], key=by_path)
    refuse_reading(write_archive(tmp_path / "x.envhub", members), said)


def test_a_wheel_in_another_form_is_refused_in_an_archive(tmp_path: Path) -> None:
    members = sorted([*plain_members(), member(WHEEL, wheel_bytes())], key=by_path)
    refuse_reading(write_archive(tmp_path / "x.envhub", members), "not in the one form")


def test_a_secret_in_a_wheel_is_seen_although_it_is_packed(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words")
    (folder / "wheel").mkdir()
    (folder / WHEEL).write_bytes(wheel_bytes({"words/key.txt": PEM}))
    refuse_build(folder, "holds what looks like a private key")


def test_two_wheels_are_refused(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words", **{WHEEL: "x", "wheel/other-1.0-py3-none-any.whl": "x"})
    refuse_build(folder, "holds 2 wheels")


def test_a_folder_without_a_manifest_and_a_file_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleRefused, match="is no folder"):
        build_bundle(tmp_path / "nothing", tmp_path)
    with pytest.raises(BundleRefused, match=r"nothing\.envhub is refused: No such file"):
        open_bundle(tmp_path / "nothing.envhub")
