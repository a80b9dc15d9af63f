"""Files that cross from one sandbox to another, and what stays behind."""

import base64
import gzip
import io
import re
import tarfile
from typing import Any

import anyio
import pytest
from pydantic import JsonValue

from rollouthub.authoring.sandbox_state import MOST_PATHS, SandboxChanges, bring_back
from rollouthub.errors import AgentError
from rollouthub.sandbox import File, Sandbox, SandboxFileError, SandboxProvider
from tests.sandboxes.contract.conftest import SPEC

MIXTURE = (
    "mkdir -p out/deep/er; echo one > out/one; echo two > out/deep/er/two; : > out/empty; chmod 755 out/one; "
    "ln -s /etc/passwd out/link; ln -s /etc out/folder; ln -s ../../.. out/up; mkfifo out/fifo; ln one out/hard || :"
)


STILL: dict[str, Any] = {"folders": [], "removed": []}


def names(files: list[File], sandbox: Sandbox) -> list[str]:
    """Their paths, below the working directory."""
    start = sandbox.workdir.strip("/") + "/"
    assert all(file.path.startswith(start) for file in files)
    return [file.path.removeprefix(start) for file in files]


async def test_regular_files_are_collected_and_nothing_else(sandbox: Sandbox) -> None:
    await sandbox.exec(MIXTURE)
    with anyio.fail_after(30):
        files = await sandbox.collect([f"{sandbox.workdir}/out", "/no/such/place"])
    assert names(files, sandbox) == ["out/deep/er/two", "out/empty", "out/one"]
    assert [(file.data, file.mode) for file in files] == [(b"two\n", 0o644), (b"", 0o644), (b"one\n", 0o755)]


async def test_a_file_is_collected_once(sandbox: Sandbox) -> None:
    await sandbox.exec("mkdir out; echo x > out/x")
    at = f"{sandbox.workdir}/out"
    assert names(await sandbox.collect([at, f"{at}/x", at]), sandbox) == ["out/x"]


async def test_no_link_is_followed_on_the_way(sandbox: Sandbox) -> None:
    await sandbox.exec("mkdir real; echo x > real/x; ln -s real folder; ln -s real/x link; ln -s /etc/passwd users")
    at = sandbox.workdir
    assert await sandbox.collect([f"{at}/folder/x", f"{at}/link", f"{at}/users"]) == []
    assert await sandbox.collect([f"{at}/folder"]) == []
    assert names(await sandbox.collect([f"{at}/real"]), sandbox) == ["real/x"]


async def test_a_link_to_a_large_folder_counts_for_nothing(sandbox: Sandbox) -> None:
    at = sandbox.workdir
    await sandbox.exec("mkdir real large; head -c 9000 /dev/zero > large/x; echo y > real/y; ln -s $PWD/large link")
    files = await sandbox.collect([f"{at}/link", f"{at}/real"], max_bytes=4000)
    assert names(files, sandbox) == ["real/y"]


async def test_what_is_collected_has_a_bound(sandbox: Sandbox) -> None:
    await sandbox.exec("mkdir out; for i in 1 2 3 4; do head -c 1000 /dev/zero > out/$i; done")
    at = f"{sandbox.workdir}/out"
    assert len(await sandbox.collect([at], max_bytes=4000)) == 4
    with pytest.raises(SandboxFileError, match="3,999 are allowed") as caught:
        await sandbox.collect([at], max_bytes=3999)
    assert caught.value.reason == "EFBIG"
    await sandbox.exec("truncate -s 120M out/sparse")
    with pytest.raises(SandboxFileError):
        await sandbox.collect([at])


async def test_only_absolute_paths_are_collected(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxFileError, match="absolute"):
        await sandbox.collect(["out"])


async def test_a_file_that_grows_meanwhile_stays_within_the_bound(sandbox: Sandbox) -> None:
    async with sandbox.start("mkdir out; echo up; exec yes > out/log") as program:
        await anext(aiter(program.output()))
        for _ in range(5):
            try:
                files = await sandbox.collect([f"{sandbox.workdir}/out"], max_bytes=1_000_000)
            except SandboxFileError as error:
                assert error.reason == "EFBIG"
            else:
                assert sum(len(file.data) for file in files) <= 1_000_000


async def test_files_are_placed(sandbox: Sandbox) -> None:
    files = [File("a", b"1"), File("b/c", b"2" * 600_000, 0o755), File("./d", b"")]
    await sandbox.place(files, f"{sandbox.workdir}/below")
    found = await sandbox.collect([f"{sandbox.workdir}/below"])
    assert names(found, sandbox) == ["below/a", "below/b/c", "below/d"]
    assert [(file.data, file.mode) for file in found] == [(b"1", 0o644), (b"2" * 600_000, 0o755), (b"", 0o644)]


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc/passwd", "", ".", "a/.."])
async def test_a_path_that_leaves_the_folder_is_refused(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(SandboxFileError) as caught:
        await sandbox.place([File(path, b"x")], f"{sandbox.workdir}/below")
    assert caught.value.reason == "EINVAL"
    assert await sandbox.list_files(".", recursive=True) == []


async def test_a_file_that_cannot_be_placed_is_named(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxFileError, match="/usr/planted"):
        await sandbox.place([File("planted", b"x")], "/usr")
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_hundreds_of_files_cross_to_another_sandbox(sandbox: Sandbox, provider: SandboxProvider) -> None:
    many = [File(f"d{number % 7}/f{number}", str(number).encode() * 100) for number in range(500)]
    await sandbox.place(many, f"{sandbox.workdir}/many")
    files = await sandbox.collect([f"{sandbox.workdir}/many"])
    start = len(sandbox.workdir.strip("/")) + 1
    async with provider.open(SPEC) as other:
        await other.place([File(file.path[start:], file.data, file.mode) for file in files], other.workdir)
        again = await other.collect([f"{other.workdir}/many"])
    assert sorted(file.data for file in again) == sorted(file.data for file in many)


async def test_a_snapshot_is_what_others_start_from(sandbox: Sandbox, provider: SandboxProvider) -> None:
    await sandbox.exec("mkdir -p kept/deep; echo mine > kept/deep/file; echo x > run; chmod 755 run")
    snapshot = await sandbox.snapshot()
    assert f"{sandbox.workdir}/kept/deep/file" in list(snapshot.changed)
    await sandbox.exec("rm -r kept; echo later > later")
    try:
        for _ in range(2):
            async with provider.open(SPEC, snapshot=snapshot) as other:
                assert await other.read_file("kept/deep/file") == b"mine\n"
                assert (await other.exec("test -x run && test ! -e later && echo as it was")).stdout.text
                assert (await other.exec("echo new > kept/deep/file && cat kept/deep/file")).stdout.text == "new\n"
    finally:
        await snapshot.discard()
        await snapshot.discard()
    assert await sandbox.read_file("later") == b"later\n"


def state(files: bytes, **more: Any) -> JsonValue:
    """A state that somebody sends."""
    return SandboxChanges(files=base64.b64encode(gzip.compress(files)).decode(), **STILL | more).model_dump(mode="json")


async def test_a_state_that_unpacks_without_end_is_refused(sandbox: Sandbox) -> None:
    for bomb in (state(bytes(200 << 20)), state(b"", removed=["/nowhere"] * (MOST_PATHS + 1))):
        with pytest.raises(ValueError, match="more than"):
            await bring_back(sandbox, bomb)


async def test_a_state_with_a_file_of_holes_is_refused(sandbox: Sandbox) -> None:
    archive, hollow = io.BytesIO(), tarfile.TarInfo("hollow")
    size = str(100 << 40)
    hollow.pax_headers = {"GNU.sparse.name": "hollow", "GNU.sparse.size": size, "GNU.sparse.map": "0,0"}
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as packed:
        packed.addfile(hollow)
    with pytest.raises(ValueError, match="'hollow' is a sparse file"):
        await bring_back(sandbox, state(archive.getvalue()))


@pytest.mark.parametrize("name", ["../up", "/etc/x", "a/../../up"])
async def test_a_state_places_nothing_by_a_path_that_leaves_the_sandbox(sandbox: Sandbox, name: str) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as packed:
        packed.addfile(tarfile.TarInfo(name))
    with pytest.raises(AgentError, match=re.escape(name)):
        await bring_back(sandbox, state(archive.getvalue()))
