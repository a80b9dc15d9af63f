"""Files that are written, read and listed, behind every kind of walls."""

import anyio
import pytest

from rollouthub.sandbox import Sandbox, SandboxFileError

BIG = bytes(range(256)) * (20_000_000 // 256)


async def reason_of(reading: object) -> str:
    """The errno's name that a file operation fails with."""
    with pytest.raises(SandboxFileError) as caught:
        await reading  # pyright: ignore[reportGeneralTypeIssues]  # a coroutine of any result
    return caught.value.reason


@pytest.mark.parametrize(
    "data", [b"", b"text\n", b"\x00\xff\r\n", "grüße 🚀".encode(), bytes(300_000)], ids=lambda data: str(len(data))
)
async def test_what_is_written_is_read_back(sandbox: Sandbox, data: bytes) -> None:
    await sandbox.write_file("file", data)
    assert await sandbox.read_file("file") == data
    assert await sandbox.read_file(f"{sandbox.workdir}/file") == data


async def test_a_big_binary_file_goes_both_ways(sandbox: Sandbox) -> None:
    await sandbox.write_file("big", BIG)
    assert (await sandbox.exec("wc -c < big")).stdout.text.strip() == str(len(BIG))
    assert await sandbox.read_file("big") == BIG


@pytest.mark.parametrize("name", ["with space", "grüße", "-rf", "a'b\"c", "line\nbreak", "~", "$HOME"])
async def test_odd_names_are_names(sandbox: Sandbox, name: str) -> None:
    await sandbox.write_file(name, b"x")
    assert await sandbox.read_file(name) == b"x"
    assert [entry.path for entry in await sandbox.list_files(".")] == [f"{sandbox.workdir}/{name}"]


async def test_folders_are_made_and_the_mode_is_kept(sandbox: Sandbox) -> None:
    await sandbox.write_file("a/b/run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
    assert (await sandbox.exec(["a/b/run.sh"])).stdout.text == "ran\n"
    (entry,) = await sandbox.list_files("a/b")
    assert (entry.mode, entry.kind, entry.bytes) == (0o755, "file", 19)


async def test_a_file_is_replaced_whole(sandbox: Sandbox) -> None:
    await sandbox.write_file("file", b"a long first version")
    await sandbox.write_file("file", b"short")
    assert await sandbox.read_file("file") == b"short"
    assert len(await sandbox.list_files(".")) == 1


async def test_a_link_is_replaced_and_not_followed(sandbox: Sandbox) -> None:
    await sandbox.exec("echo kept > target; ln -s target link; ln -s nowhere dangling")
    await sandbox.write_file("link", b"new")
    await sandbox.write_file("dangling", b"new")
    assert await sandbox.read_file("target") == b"kept\n"
    assert [entry.kind for entry in await sandbox.list_files(".")] == ["file"] * 3


async def test_links_are_followed_in_reading_unless_they_are_not_to_be(sandbox: Sandbox) -> None:
    await sandbox.exec("mkdir real; echo there > real/file; ln -s real folder; ln -s real/file link")
    assert await sandbox.read_file("link") == b"there\n"
    assert await sandbox.read_file("folder/file") == b"there\n"
    assert await reason_of(sandbox.read_file("link", follows_links=False)) == "ELOOP"
    assert await reason_of(sandbox.read_file("folder/file", follows_links=False)) in ("ELOOP", "ENOTDIR")
    assert await sandbox.read_file("real/file", follows_links=False) == b"there\n"


async def test_what_is_no_regular_file_is_not_read(sandbox: Sandbox) -> None:
    await sandbox.exec("mkdir folder; mkfifo fifo; ln -s fifo to-fifo; ln -s loop loop; ln -s /dev/zero endless")
    with anyio.fail_after(20):
        for name in ("folder", "fifo", "to-fifo", "endless", "/dev/zero", "/dev/tty"):
            assert await reason_of(sandbox.read_file(name))
        assert await reason_of(sandbox.read_file("loop")) == "ELOOP"
        assert await reason_of(sandbox.read_file("missing")) == "ENOENT"
        assert await reason_of(sandbox.read_file("folder/missing/file")) == "ENOENT"
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_a_file_larger_than_allowed_is_refused(sandbox: Sandbox) -> None:
    await sandbox.write_file("file", bytes(1000))
    assert await reason_of(sandbox.read_file("file", max_bytes=999)) == "EFBIG"
    assert len(await sandbox.read_file("file", max_bytes=1000)) == 1000


async def test_permissions_hold(sandbox: Sandbox) -> None:
    await sandbox.write_file("secret", b"x", mode=0)
    assert await reason_of(sandbox.read_file("secret")) == "EACCES"
    assert await reason_of(sandbox.write_file("/usr/planted", b"x")) in ("EROFS", "EACCES")
    assert await reason_of(sandbox.write_file("/proc/planted", b"x")) != ""
    await sandbox.exec("mkdir closed && chmod 500 closed")
    assert await reason_of(sandbox.write_file("closed/file", b"x")) == "EACCES"
    await sandbox.exec("mkdir taken")
    assert await reason_of(sandbox.write_file("taken", b"x")) in ("EISDIR", "EEXIST", "ENOTEMPTY")


async def test_a_failed_write_leaves_nothing(sandbox: Sandbox) -> None:
    if sandbox.ref.walls == "limits":
        assert any(said.startswith("disk space is limited for each file") for said in sandbox.ref.limitations)
        return
    assert await reason_of(sandbox.write_file("huge", bytes(200 << 20))) in ("ENOSPC", "EFBIG")
    assert await sandbox.list_files(".") == []
    await sandbox.write_file("small", b"fits")


async def test_a_full_disk_is_the_programs_trouble_alone(sandbox: Sandbox) -> None:
    done = await sandbox.exec("head -c 400000000 /dev/zero > filler")
    assert done.exit_status != 0
    await sandbox.exec("rm -f filler")
    assert (await sandbox.exec("echo room > again && cat again")).stdout.text == "room\n"


async def test_odd_paths_are_refused(sandbox: Sandbox) -> None:
    assert await reason_of(sandbox.read_file("nul\0byte")) == "EINVAL"
    assert await reason_of(sandbox.read_file("x" * 5000)) == "ENAMETOOLONG"
    assert await reason_of(sandbox.write_file("\ud800", b"")) == "EILSEQ"


async def test_folders_are_listed(sandbox: Sandbox) -> None:
    await sandbox.exec("mkdir -p b/c; echo 12 > a; echo 1234 > b/d; ln -s /etc b/link; mkfifo b/c/pipe; chmod 640 a")
    at = sandbox.workdir
    assert [(entry.path, entry.kind) for entry in await sandbox.list_files(".")] == [
        (f"{at}/a", "file"),
        (f"{at}/b", "directory"),
    ]
    found = {entry.path: entry for entry in await sandbox.list_files(at, recursive=True)}
    assert list(found) == sorted(found)
    assert {path.removeprefix(f"{at}/"): entry.kind for path, entry in found.items()} == {
        "a": "file",
        "b": "directory",
        "b/c": "directory",
        "b/c/pipe": "other",
        "b/d": "file",
        "b/link": "symlink",
    }
    assert (found[f"{at}/a"].mode, found[f"{at}/b/d"].bytes) == (0o640, 5)
    (entry,) = await sandbox.list_files("a")
    assert (entry.path, entry.bytes) == (f"{at}/a", 3)


async def test_a_listing_has_a_bound(sandbox: Sandbox) -> None:
    await sandbox.exec("mkdir many; cd many; seq 3000 | xargs touch")
    assert len(await sandbox.list_files("many")) == 3000
    assert await reason_of(sandbox.list_files("many", max_entries=2999)) != ""
    assert await reason_of(sandbox.list_files("missing")) == "ENOENT"
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_a_cancelled_transfer_leaves_no_half_file(sandbox: Sandbox) -> None:
    for _ in range(5):
        with anyio.move_on_after(0.002):
            await sandbox.write_file("half", BIG)
            await sandbox.read_file("half")
    for entry in await sandbox.list_files("."):
        assert (entry.path, entry.bytes) == (f"{sandbox.workdir}/half", len(BIG))
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_many_files_move_at_once(sandbox: Sandbox) -> None:
    async def round_trip(number: int) -> None:
        data = bytes([number]) * 100_000
        await sandbox.write_file(f"file-{number}", data)
        assert await sandbox.read_file(f"file-{number}") == data

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(round_trip, number)
