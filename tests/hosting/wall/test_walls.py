"""What an environment of others reaches for: stopped behind each kind of wall, and reported."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import JsonValue

from rollouthub.hosting.client.server_replicas import ReplicatedHost
from rollouthub.hosting.wall.wall import Wall
from tests.hosting.wall.evil import CANARY, World, abstract_name, listening_port

OUTSIDE = "192.0.2.1"
"""An address that nobody has (RFC 5737)."""


@contextmanager
def targets(world: World, folder: Path) -> Generator[list[tuple[str, object]]]:
    """All attacks, with what they are aimed at: files, listeners and processes of this machine."""
    (folder / ".env").write_text(CANARY)
    name = abstract_name()
    with listening_port() as listener, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        yield [
            ("read", world.home / ".ssh" / "id_rsa"),
            ("read", world.neighbour),
            ("list", world.neighbour.parents[2]),
            ("read", ".env"),
            ("read", folder / ".env"),
            ("variable", "LAB_SECRET_KEY"),
            ("variable", "PLAIN_SETTING"),
            ("variables of others", ""),
            ("own module", ""),
            ("own folder", ""),
            ("append", "/proc/sys/kernel/core_pattern"),
            ("port", listener.getsockname()[1]),
            ("outside", OUTSIDE),
            ("name", "example.org"),
            ("abstract socket", name),
            ("socket", "/var/run/docker.sock"),
            ("kill", os.getpid()),
            ("trace", os.getpid()),
            ("trace", 1),  # what ends all that it leaves behind
            ("read", "/proc/1/environ"),
            ("user namespace", ""),
        ]
        with pytest.raises(BlockingIOError):
            listener.accept()


async def test_what_it_reaches_for_is_stopped_and_reported(
    world: World, wall: Wall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_SECRET_KEY", CANARY)
    monkeypatch.setenv("PLAIN_SETTING", CANARY)
    with targets(world, tmp_path) as attacks:
        said = await world.attacked(wall, tmp_path, attacks)
    assert len(said) == len(attacks)
    assert {aim: words for aim, words in said.items() if "LOOT" in words or CANARY in words} == {}
    assert {aim: words for aim, words in said.items() if f"[behind a wall: {wall.kind}." not in words} == {}


async def test_what_it_reaches_for_is_there_without_a_wall(world: World, tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    with listening_port() as listener:
        attacks = [
            ("read", world.home / ".ssh" / "id_rsa"),
            ("read", world.neighbour),
            ("read", ".env"),
            ("own module", ""),
            ("port", listener.getsockname()[1]),
            ("kill", os.getpid()),
        ]
        (tmp_path / ".env").write_text(CANARY)
        said = await world.attacked(None, tmp_path, attacks)
    assert {aim: words for aim, words in said.items() if "LOOT" not in words} == {}


async def test_what_it_was_given_is_there(
    world: World, wall: Wall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", "declared")
    (tmp_path / "rows.txt").write_text("rows of the user's")
    settings: dict[str, JsonValue] = {"data": "rows.txt"}
    async with world.episode(wall, settings) as episode:
        (seat,) = episode.seats.values()
        said = await seat.call_tool("look", {})
    assert not said.is_error, said
    assert "declared rows of the user's" in str(said.content)
    assert (world.installation.file.parents[1] / "home" / "kept").exists(), "its home outlives it"


async def test_what_was_in_force_is_told_of_its_host(world: World, wall: Wall) -> None:
    async with world.served(wall, {}) as host:
        assert (host.info.isolation, host.info.openings) == (wall.kind, ())
    async with world.served(None, {}) as host:
        assert (host.info.isolation, host.info.openings) == ("process", ())


async def test_several_servers_have_a_wall_each(world: World, wall: Wall) -> None:
    async with world.served(wall, {}, servers=2) as host:
        assert isinstance(host, ReplicatedHost)
        assert host.info.isolation == wall.kind
        assert list(host.servers_up) == [True, True]
