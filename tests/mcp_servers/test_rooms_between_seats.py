"""Files and processes between seats of one episode (L7, L8), where each has a sandbox of its own."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from rollouthub import BadRow, Deadlines, Submission
from rollouthub.errors import HubError
from rollouthub.hosting.open_host import configured, open_in_process, open_served
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import Episode
from tests.contract.drivers import Driver, direct, sdk

from .private_rooms import HIDDEN, ROOMS

FILE = str(Path(__file__).parent / "private_rooms.py")
# In two halves, so that the search does not find itself.
WORDS = " ".join(f"-e {text[:6]}''{text[6:]}" for text in (*ROOMS.values(), HIDDEN))
PLACES = ". /tmp /home /root /workspace /run /var /opt /mnt /srv /etc /tests /logs"
EVERYTHING = (
    f"grep -rs {WORDS} {PLACES}; find {PLACES} -name '*.txt' 2>/dev/null; "
    f"cat /proc/*/environ /proc/*/cmdline >/tmp/seen 2>/dev/null; grep -a {WORDS} /tmp/seen"
)
REWARDS = "mkdir -p /tmp/logs /logs/verifier 2>/dev/null; for f in reward.txt reward.json /tmp/logs/reward.txt"
WRITES = REWARDS + " /logs/verifier/reward.txt ../right/answer.txt; do echo 1 > $f; done; echo done > answer.txt"


@dataclass
class House:
    """An open episode, and a client at each of its seats."""

    episode: Episode
    clients: dict[str, Driver] = field(default_factory=dict[str, Driver])

    async def run(self, seat: str, command: str) -> str:
        """What a seat's shell prints."""
        result = await self.clients[seat].call("shell", {"command": command})
        return "\n".join(block["text"] for block in result["content"])


@asynccontextmanager
async def house(place: str, sandbox: str) -> AsyncGenerator[House]:
    """The two rooms, hosted here or served, with an MCP client at each served seat."""
    async with AsyncExitStack() as stack:
        found = find_environment(FILE)
        settings = {"sandbox": sandbox}
        hosted = (
            open_served(FILE, settings)
            if place == "served"
            else open_in_process(found.name, found.environment, configured(found, settings))
        )
        try:
            host = await stack.enter_async_context(hosted)
        except HubError as error:
            pytest.skip(f"there is no {sandbox} sandbox: {error}")
        card = await anext(aiter(host.tasks("test", 0)))
        assert not isinstance(card, BadRow)
        opened = House(await stack.enter_async_context(host.open(card, seed=0, deadlines=Deadlines())))
        for seat, plane in opened.episode.seats.items():
            opener = sdk("auto") if place == "served" else direct
            opened.clients[seat] = await stack.enter_async_context(opener(plane, str(getattr(plane, "url", ""))))
        yield opened


@pytest.fixture(params=["here", "served"])
def place(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.soak)])
def sandbox(request: pytest.FixtureRequest) -> str:
    if request.param == "process":  # without walls, a seat's `kill -9 -1` would end who tests, too
        request.getfixturevalue("namespaces")
    return request.param


async def test_l7_no_file_of_another_seat_or_of_the_verifier_is_on_a_seats_disk(place: str, sandbox: str) -> None:
    async with house(place, sandbox) as rooms:
        for seat, other in (("left", "right"), ("right", "left")):
            seen = await rooms.run(seat, EVERYTHING)
            assert ROOMS[seat] in seen, "the search finds what is there"
            assert not [text for text in (ROOMS[other], f"{other}.txt", HIDDEN) if text in seen]
        await rooms.run("left", "echo done > answer.txt")
        verdict = await rooms.episode.verify(Submission())
    assert verdict.seat_rewards == {"left": 1.0, "right": 0.0}


async def test_l8_no_process_and_no_file_of_a_seat_changes_what_another_earns(place: str, sandbox: str) -> None:
    with anyio.fail_after(120):
        async with house(place, sandbox) as rooms:
            started = "setsid sh -c 'while true; do echo spoilt > answer.txt; sleep 0.1; done' >/dev/null 2>&1 &"
            await rooms.run("right", "setsid sleep 4343 >/dev/null 2>&1 &")
            await rooms.run("left", f"{started} kill -9 -1")
            await rooms.run("left", started)
            assert "sleep 4343" in await rooms.run("right", "cat /proc/*/cmdline | tr '\\0' ' '"), "it was not killed"
            assert "sleep 4343" not in await rooms.run("left", "cat /proc/*/cmdline | tr '\\0' ' '")
            await rooms.run("right", WRITES)
            verdict = await rooms.episode.verify(Submission())
            assert verdict.seat_rewards == {"left": 0.0, "right": 1.0}
            assert verdict.reward == 0.5
            assert await rooms.episode.verify(Submission()) == verdict
        assert not _run(b"4343"), "what a seat leaves running ends with its episode"


def _run(number: bytes) -> bool:
    """Whether this machine runs `sleep` for so long."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if process.read_bytes().split(b"\0")[:2] == [b"sleep", number]:
                return True
        except OSError:
            continue
    return False
