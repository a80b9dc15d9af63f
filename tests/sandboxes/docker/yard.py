"""An environment for runs whose engine or hub is ended: played by `hub run yard.py -a oracle`."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import anyio

from rollouthub import Environment, Message, Public, SandboxedConfig, SandboxSpec, Score, Secret, Submission, Task, tool
from rollouthub.messages import ToolRequest, assistant
from rollouthub.sandbox import Resources

SAYS = "exit 0: 'begun\\ndone\\n'"
"""What the tool says where nothing broke; whatever else it says was not said by its program."""
SMALL = Resources(memory_bytes=64 << 20, pids=32, disk_bytes=8 << 20)


class YardConfig(SandboxedConfig):
    """Where to play, and how."""

    size: int = 16
    """Tasks."""
    patient: int = 4
    """Every so many-th task works until it is told to stop, all others for a moment."""
    image: str = "debian:bookworm-slim"
    keeps: bool = False
    """Whether the first task takes a snapshot, of a root that can be written to."""


class Yard(Environment[YardConfig]):
    """One tool that works for a while in the sandbox, and a verifier that works in another."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for number in range(config.size):
            yield Task(Public(id=str(number), prompt="Work."), Secret())

    @classmethod
    def specs(cls, config: Any) -> Sequence[SandboxSpec]:
        return (SandboxSpec(image=config.image, resources=SMALL, has_writable_root=config.keeps),)

    def sandbox_spec(self) -> SandboxSpec:
        return self.specs(self.config)[0]

    async def setup(self) -> None:
        if self.config.keeps and self.task.id == "0":
            await self.sandbox.snapshot()

    def reference(self) -> Sequence[Message]:
        return (assistant("", ToolRequest(id="1", name="work", arguments="{}")), assistant("Done."))

    @tool
    async def work(self) -> str:
        """Work for a while."""
        is_patient = int(self.task.id) % self.config.patient == 0 and not await anyio.Path("go-on").exists()
        script = f"echo begun; sleep {600 if is_patient else 0.2}; echo done"
        said(f"works {os.getpid()} {self.sandbox.id}")
        done = await self.sandbox.exec(script, timeout_seconds=900)
        return f"exit {done.exit_status}: {done.stdout.text!r}"

    async def verify(self, submission: Submission) -> Score:
        async with self.open_sandbox(self.sandbox_spec()) as fresh:
            done = await fresh.exec("echo judged")
        said("verified")
        return Score(reward=float(done.stdout.text == "judged\n"))


def said(line: str) -> None:
    """Tell the test, which reads standard error."""
    sys.stderr.write(f"yard: {line}\n")
    sys.stderr.flush()
