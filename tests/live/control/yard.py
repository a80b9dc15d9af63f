"""A world with a sandbox to each episode, and another for its verifier."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rollouthub import Environment, Public, SandboxedConfig, SandboxSpec, Score, Secret, Submission, Task, tool
from rollouthub.sandbox import MIB, Resources

SPEC = SandboxSpec(resources=Resources(memory_bytes=128 * MIB, pids=64, disk_bytes=32 * MIB))


class Yard(Environment[SandboxedConfig]):
    """Find out where you are."""

    verified_in: ClassVar[list[str]] = []
    """The sandboxes that verifiers used."""

    @classmethod
    def tasks(cls, config: SandboxedConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """Many of them."""
        for number in range(100):
            yield Task(Public(id=str(number), prompt="Where are you?"), Secret())

    @classmethod
    def specs(cls, config: SandboxedConfig) -> Sequence[SandboxSpec]:
        """One kind."""
        return (SPEC,)

    def sandbox_spec(self) -> SandboxSpec:
        """One for the agent."""
        return SPEC

    @tool
    async def look(self) -> str:
        """The name of the machine this is."""
        await self.sandbox.write_file(f"{self.sandbox.workdir}/whose", self.task.id.encode())
        return (await self.sandbox.exec("hostname")).stdout.text

    async def verify(self, submission: Submission) -> Score:
        """Look at it from elsewhere."""
        async with self.open_sandbox(SPEC) as fresh:
            self.verified_in.append(fresh.id)
            return Score(reward=float((await fresh.exec("true")).exit_status == 0))
