"""Two seats, each with a sandbox of its own behind a shell, and a verifier that runs hidden tests in a third."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from rollouthub import (
    Environment,
    Message,
    Public,
    Sandbox,
    SandboxedConfig,
    SandboxSpec,
    Score,
    Secret,
    Submission,
    Task,
    tool,
)
from rollouthub.messages import user

ROOMS = {"left": "ROOM-OF-LEFT", "right": "ROOM-OF-RIGHT"}
HIDDEN = "HIDDEN-TESTS-OF-THE-VERIFIER"
SPEC = SandboxSpec()


class PrivateRooms(Environment[SandboxedConfig]):
    """Each seat is to write `done` into its own `answer.txt`."""

    seats = ("left", "right")
    submits = False

    @classmethod
    def tasks(cls, config: SandboxedConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """One task for both seats."""
        yield Task(Public(id="one", prompt="Write `done` into answer.txt."), Secret(answer=HIDDEN))

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Hold a sandbox for each seat."""
        async with AsyncExitStack() as stack:
            self.rooms: dict[str, Sandbox] = {}
            for seat in self.seats:
                self.rooms[seat] = await stack.enter_async_context(self.open_sandbox(SPEC))
            yield

    async def setup(self) -> None:
        """Leave something private in each room."""
        for seat, room in self.rooms.items():
            await room.write_file(f"{room.workdir}/{seat}.txt", ROOMS[seat].encode())

    def messages(self, seat: str) -> Sequence[Message]:
        """The task, and who it is for."""
        return [user(f"You are {seat}. Write `done` into answer.txt.")]

    @tool
    async def shell(self, command: str) -> str:
        """Run a command in the seat's own sandbox."""
        room = self.rooms[self.calling_seat]
        finished = await room.exec(("sh", "-c", command), cwd=room.workdir, timeout_seconds=20)
        return finished.stdout.text + finished.stderr.text

    async def seal(self) -> None:
        """End what the seats left running before anything is verified."""
        for room in self.rooms.values():
            await room.stop()

    async def verify(self, submission: Submission) -> Score:
        """Run the hidden tests on each seat's answer, in a sandbox that no seat has seen."""
        earned: dict[str, float] = {}
        for seat, room in self.rooms.items():
            found = await room.collect([f"{room.workdir}/answer.txt"])
            async with self.open_sandbox(SPEC) as bench:
                test = f"{bench.workdir}/hidden.sh"
                await bench.write_file(test, f"# {HIDDEN}\n[ x$(cat answer.txt) = xdone ]".encode())
                for file in found:
                    await bench.write_file(f"{bench.workdir}/answer.txt", file.data)
                earned[seat] = float((await bench.exec(("sh", test), cwd=bench.workdir)).exit_status == 0)
        return Score(reward=sum(earned.values()) / 2, seat_rewards=earned)
