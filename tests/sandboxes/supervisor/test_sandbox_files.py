"""Files by their frames: read, written and listed, and what none can be made of."""

import errno
import os
import struct
from pathlib import Path

import pytest

from rollouthub_sandboxes.supervisor import frames
from rollouthub_sandboxes.supervisor.frames import read_string, string
from tests.sandboxes.supervisor.test_supervisor import IS_ROOT
from tests.sandboxes.supervisor.wire import Wire

CONTENT = os.urandom(5000) * 300


def entries(listing: bytes) -> dict[str, tuple[str, int, int]]:
    """Kind, mode and size by path."""
    found: dict[str, tuple[str, int, int]] = {}
    at = 0
    while at < len(listing):
        kind, mode, size = struct.unpack_from("<BIQ", listing, at)
        path, at = read_string(listing, at + 13)
        found[path.decode()] = (frames.KINDS[kind], mode, size)
    return found


def begin_write(wire: Wire, path: Path) -> int:
    """A write under way, half of it sent and taken."""
    channel = wire.channel()
    wire.send("P", channel, struct.pack("<I", 0o644) + string("") + string(str(path)))
    wire.send("I", channel, b"half")
    assert wire.next(channel) == ("i", struct.pack("<I", 4))
    return channel


def test_a_file_is_read_at_the_pace_of_credit(wire: Wire, place: Path) -> None:
    (place / "big").write_bytes(CONTENT)
    channel = wire.channel()
    wire.send("R", channel, struct.pack("<QI", 1 << 30, 0) + string(str(place / "big")))
    received = b""
    while len(received) < frames.WINDOW:
        received += wire.next(channel)[1]
    assert len(received) == frames.WINDOW
    assert wire.out("echo others go on") == b"others go on\n"
    assert not wire.has(channel)
    wire.send("A", channel, struct.pack("<I", frames.WINDOW))
    answer = wire.answer(channel)
    assert received + answer.output == CONTENT
    assert answer.number == len(CONTENT)


def test_a_file_is_written_whole_with_its_mode(wire: Wire, place: Path) -> None:
    channel = wire.channel()
    path = place / "new" / "folder" / "file"
    wire.send("P", channel, struct.pack("<I", 0o750) + string("") + string(str(path)))
    for at in range(0, len(CONTENT), 100_000):
        wire.send("I", channel, CONTENT[at : at + 100_000])
    wire.send("I", channel)
    answer = wire.answer(channel)
    assert (answer.number, sum(answer.credits)) == (len(CONTENT), len(CONTENT))
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (CONTENT, 0o750)
    assert [file.name for file in path.parent.iterdir()] == ["file"]


def test_an_empty_file_is_written_and_read(wire: Wire, place: Path) -> None:
    assert wire.write(place / "empty", b"").number == 0
    answer = wire.read(place / "empty")
    assert (answer.number, answer.output) == (0, b"")


@pytest.mark.skipif(not IS_ROOT, reason="only root gives files away")
def test_a_file_and_the_folders_made_for_it_belong_to_their_user(wire: Wire, place: Path) -> None:
    assert wire.write(place / "theirs" / "file", b"x", user="65534:7").number == 1
    for path in (place / "theirs", place / "theirs" / "file"):
        assert (path.stat().st_uid, path.stat().st_gid) == (65_534, 7)
    assert wire.write(place / "file", b"x", user="no-such-user").failure == (
        errno.ENOENT,
        "finding the file's user",
    )


def test_writing_replaces_a_link_and_leaves_what_it_points_to(wire: Wire, place: Path) -> None:
    (place / "target").write_bytes(b"untouched")
    (place / "link").symlink_to(place / "target")
    assert wire.write(place / "link", b"new").number == 3
    assert (place / "target").read_bytes() == b"untouched"
    assert not (place / "link").is_symlink()
    assert (place / "link").read_bytes() == b"new"


def test_what_is_given_up_in_mid_write_leaves_nothing(wire: Wire, place: Path) -> None:
    channel = begin_write(wire, place / "file")
    assert len(list(place.iterdir())) == 1
    wire.send("K", channel, b"\0")
    wire.out("true")
    assert list(place.iterdir()) == []
    assert not wire.has(channel)


def test_files_cannot_take_the_place_of_folders(wire: Wire, place: Path) -> None:
    (place / "folder").mkdir()
    (place / "file").write_bytes(b"")
    assert wire.write(place / "folder", b"x").failure[0] == errno.EISDIR
    assert wire.write(f"{place}/folder/", b"x").failure[0] == errno.EISDIR
    assert wire.write(place / "file" / "below", b"x").failure[0] == errno.ENOTDIR
    assert wire.write("", b"x").failure[0] == errno.EINVAL
    assert wire.write(place / ("n" * 300), b"x").failure[0] == errno.ENAMETOOLONG
    assert sorted(path.name for path in place.rglob("*")) == ["file", "folder"]


def test_what_is_no_regular_file_is_not_read(wire: Wire, place: Path) -> None:
    os.mkfifo(place / "fifo")
    (place / "loop").symlink_to(place / "loop")
    assert wire.read(place / "fifo").failure == (errno.EINVAL, "reading what is no regular file")
    assert wire.read("/dev/zero").failure == (errno.EINVAL, "reading what is no regular file")
    assert wire.read(place).failure == (errno.EISDIR, "reading what is no regular file")
    assert wire.read(place / "loop").failure[0] == errno.ELOOP
    assert wire.read(place / "absent").failure == (errno.ENOENT, "opening the file")


def test_a_file_above_the_limit_is_refused(wire: Wire, place: Path) -> None:
    (place / "file").write_bytes(b"x" * 1001)
    assert wire.read(place / "file", most=1000).failure == (errno.EFBIG, "reading the file")
    assert wire.read(place / "file", most=1001).number == 1001
    # One that does not tell its size is stopped where it grows too large.
    assert wire.read("/proc/kallsyms", most=1000).failure == (errno.EFBIG, "reading the file")


@pytest.mark.parametrize("path", ["link", "away/file", "folder/up/link"])
def test_no_link_is_followed_where_the_request_says_so(wire: Wire, place: Path, path: str) -> None:
    (place / "folder").mkdir()
    (place / "folder" / "file").write_bytes(b"secret")
    (place / "folder" / "up").symlink_to("..")
    (place / "link").symlink_to("folder/file")
    (place / "away").symlink_to("folder")
    assert wire.read(place / path).output == b"secret"
    assert wire.read(place / path, flags=frames.NO_LINKS).failure[0] in (errno.ELOOP, errno.ENOTDIR)
    assert wire.read(place / "folder" / "file", flags=frames.NO_LINKS).output == b"secret"


def test_a_listing_names_everything_and_follows_nothing(wire: Wire, place: Path) -> None:
    (place / "folder").mkdir(mode=0o700)
    (place / "folder" / "file").write_bytes(b"12345")
    (place / "folder" / "file").chmod(0o640)
    (place / "up").symlink_to("..")
    os.mkfifo(place / "fifo")
    found = entries(wire.listing(place).output)
    assert {path: entry[0] for path, entry in found.items()} == {
        "folder": "directory",
        "folder/file": "file",
        "up": "symlink",
        "fifo": "other",
    }
    assert found["folder/file"] == ("file", 0o640, 5)
    assert set(entries(wire.listing(place, recursive=False).output)) == {"folder", "up", "fifo"}
    assert entries(wire.listing(place / "folder" / "file").output) == {"": ("file", 0o640, 5)}
    (place / "to").symlink_to("folder")
    assert set(entries(wire.listing(place / "to").output)) == {"file"}


def test_a_listing_that_would_be_too_long_is_refused(wire: Wire, place: Path) -> None:
    for number in range(100):
        (place / f"{number}").touch()
    assert wire.listing(place, most=99).failure == (errno.E2BIG, "listing")
    assert wire.listing(place, most=100).number == 100
    assert wire.listing(place / "absent").failure == (errno.ENOENT, "listing")


def test_long_paths_do_not_make_a_listing_grow_without_bound(wire: Wire, place: Path) -> None:
    # 200 folders below one another, each of 250 characters, and 3,000 files down there: 150 MB of paths.
    deep = f"cd {place}; n=$(printf %0250d 0); for i in $(seq 200); do mkdir $n; cd $n; done; seq 3000 | xargs touch"
    assert wire.run(["/bin/bash", "-c", deep]).ended.status == 0
    try:
        assert wire.listing(place).failure == (errno.E2BIG, "listing")
    finally:
        assert wire.run(f"rm -rf {place}/*").ended.status == 0


def test_a_path_deeper_than_any_sensible_one_is_refused(wire: Wire, place: Path) -> None:
    deep = f"cd {place}; for i in $(seq 300); do mkdir d; cd d; done"
    assert wire.run(deep).ended.status == 0
    assert wire.listing(place).failure == (errno.ELOOP, "listing")


def test_unreadable_folders_are_listed_and_their_content_is_not(program: Path, place: Path) -> None:
    (place / "closed").mkdir()
    (place / "closed" / "file").touch()
    user = 65_534 if IS_ROOT else None
    (place / "closed").chmod(0o700 if IS_ROOT else 0)
    with Wire([program], user=user, group=user, extra_groups=[] if IS_ROOT else None) as wire:
        assert set(entries(wire.listing(place).output)) == {"closed"}
        assert wire.listing(place / "closed").failure == (errno.EACCES, "listing")
        assert wire.read(place / "closed" / "file").failure == (errno.EACCES, "opening the file")
        assert wire.write(place / "closed" / "new", b"").failure == (errno.EACCES, "creating the file")
    (place / "closed").chmod(0o700)
