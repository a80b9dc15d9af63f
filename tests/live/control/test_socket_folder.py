"""Where the socket of live control is: which folder serves, which is refused, and what is removed there."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rollouthub.live.control import live_server as door
from rollouthub.live.control.socket_folder import (
    LONGEST_PATH,
    choose_path,
    find_sockets,
    is_alive,
    socket_folders,
    why_unsafe,
)

from .conftest import IS_ROOT, Guest, Watch


def use(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let sockets be in this folder, or nowhere."""

    def only(environ: Mapping[str, str]) -> tuple[Path, ...]:
        return (folder,)

    monkeypatch.setattr(door, "socket_folders", only)


def environ(runtime: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(runtime)}


def test_without_a_runtime_folder_the_temporary_one_serves() -> None:
    (folder,) = socket_folders({})
    assert folder.name == f"rollouthub-{os.geteuid()}"
    assert socket_folders({"XDG_RUNTIME_DIR": "not/absolute"}) == (folder,)


def test_a_name_too_long_is_shortened_and_two_stay_two(runtime: Path) -> None:
    deep = runtime / ("d" * (LONGEST_PATH - len(os.fsencode(runtime)) - 22))
    deep.mkdir(mode=0o700)
    one, other = (choose_path((deep,), f"{'r' * 90}-{number}") for number in (1, 2))
    assert one != other
    assert len(os.fsencode(one)) <= LONGEST_PATH


@pytest.mark.parametrize("run_id", ["../../escape", "a/b", "", "x" * 300, "nul\0byte", "ünï"])
def test_a_run_id_never_leads_out_of_the_folder(runtime: Path, run_id: str) -> None:
    folder = runtime / "rollouthub"
    assert choose_path((folder,), run_id).parent == folder


async def test_a_folder_too_deep_leaves_the_run_without_a_door_and_with_a_warning(
    watch: Watch, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = runtime / ("d" * 100)
    deep.mkdir()
    use(monkeypatch, deep / "rollouthub")
    async with watch(Guest(is_open=True)) as run:
        await run.over.wait()
        assert "too long" in run.warnings[0]
    assert len(run.records()) == 3


async def test_a_folder_that_is_slow_to_answer_leaves_the_run_without_a_door_and_says_so(
    watch: Watch, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runtime / "rollouthub"
    folder.mkdir(mode=0o700)
    use(monkeypatch, folder)
    for number in range(2_000):
        (folder / str(number)).touch()
    monkeypatch.setattr(door, "_OPENING_SECONDS", 0.001)
    async with watch(Guest()) as run:
        assert run.warnings == ["live control is off: opening its socket took longer than 0.001 s"]
    assert len(run.records()) == 3


def spoil(folder: Path, how: str) -> None:
    """Make a folder unfit."""
    match how:
        case "open to others":
            folder.mkdir()
            folder.chmod(0o777)
        case "belongs to user":
            folder.mkdir(mode=0o700)
            os.chown(folder, 65534, 65534)
        case "no folder":
            folder.write_text("")
        case _:
            folder.symlink_to(folder.parent)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("open to others", "open to others"),
        pytest.param(
            "belongs to user",
            "belongs to user 65534",
            marks=pytest.mark.skipif(not IS_ROOT, reason="only root can give a folder away"),
        ),
        ("no folder", "no folder"),
        ("a link", "no folder"),
    ],
)
async def test_a_folder_that_is_not_the_users_alone_is_not_used(
    watch: Watch, runtime: Path, monkeypatch: pytest.MonkeyPatch, how: str, says: str
) -> None:
    folder = runtime / "rollouthub"
    spoil(folder, how)
    assert says in (why_unsafe(folder) or "")
    assert find_sockets((folder,)) == []
    assert choose_path((folder, runtime / "other"), "run").parent == runtime / "other"
    use(monkeypatch, folder)
    async with watch(Guest(is_open=True)) as run:
        await run.over.wait()
        assert says in run.warnings[0]
    assert len(run.records()) == 3


def test_what_killed_hubs_left_behind_is_removed_and_what_listens_stays(runtime: Path) -> None:
    folder = runtime / "rollouthub"
    folder.mkdir(mode=0o700)
    left, unfinished, fresh, note = (folder / name for name in ("left.sock", "old.new", "fresh.new", "note.sock"))
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(folder / "alive.sock"))
        alive.listen()
        for path in (left, unfinished, fresh):
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(path))
        os.utime(unfinished, (0, 0))
        note.write_text("no socket")
        assert find_sockets((folder,)) == [folder / "alive.sock"]
        assert sorted(path.name for path in folder.iterdir()) == ["alive.sock", "fresh.new", "note.sock"]


async def test_a_copy_of_a_run_in_flight_gets_a_door_of_its_own(watch: Watch, runtime: Path) -> None:
    async with watch(Guest()) as run:
        assert run.live.facts is not None
        other = choose_path((runtime / "rollouthub",), run.live.facts.run_id)
        assert other != run.sockets[0]
        assert is_alive(run.sockets[0])


async def test_a_hub_that_ends_leaves_the_socket_of_a_later_one(watch: Watch) -> None:
    async with watch(Guest()) as run:
        (path,) = run.sockets
        path.unlink()
        with socket.socket(socket.AF_UNIX) as later:
            later.bind(str(path))
    assert path.exists()


LISTEN = """
import socket, sys, time
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    print("up", flush=True)
    time.sleep(60)
"""


def test_a_killed_hub_is_not_listed(runtime: Path) -> None:
    folder = runtime / "rollouthub"
    folder.mkdir(mode=0o700)
    with subprocess.Popen([sys.executable, "-c", LISTEN, str(folder / "x.sock")], stdout=subprocess.PIPE) as hub:
        assert hub.stdout is not None
        hub.stdout.readline()
        assert find_sockets(socket_folders(environ(runtime))[:1]) == [folder / "x.sock"]
        hub.kill()
    assert find_sockets(socket_folders(environ(runtime))[:1]) == []
    assert not (folder / "x.sock").exists()
