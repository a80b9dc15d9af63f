"""The memory of a verifier: that of its own process, and of processes that it starts."""

import sys

import anyio
import pytest

from rollouthub import EnvironmentConfig, Message, Public, Secret, Submission, Task
from rollouthub.environment import Environment
from rollouthub.messages import assistant
from rollouthub.sandbox_spec import MIB
from rollouthub_registry.audit.verifier_memory import measured_memory
from tests.audit.measuring import audited

TAKEN = 96 * MIB
_TAKES = f"taken = bytearray(b'x' * {TAKEN}); print('taken', flush=True); input()"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux")


async def test_what_this_process_takes_for_a_moment_is_measured() -> None:
    async with measured_memory() as quiet:
        pass
    async with measured_memory() as memory:
        taken = bytearray(b"x" * 4 * TAKEN)
        del taken
    assert quiet.peak_bytes < TAKEN
    assert memory.peak_bytes >= TAKEN


async def test_what_a_process_below_takes_is_measured() -> None:
    async with measured_memory() as memory, await anyio.open_process([sys.executable, "-c", _TAKES]) as process:
        assert process.stdout is not None
        await process.stdout.receive()
        with anyio.fail_after(20):
            while memory.peak_bytes < TAKEN:  # noqa: ASYNC110  # nobody tells when it looks
                await anyio.sleep(0.01)
        process.kill()


async def test_an_error_inside_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with measured_memory():
            raise KeyError("mine")


class Large(Environment[EnvironmentConfig]):
    """Its verifier takes memory."""

    scores_transcripts = True

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> list[Task[Public, Secret]]:
        return [Task(Public(id="large", prompt="Which bird is it?"), Secret(answer="fulmar-88123"))]

    def reference(self) -> tuple[Message, ...]:
        return (assistant(self.task.secret.answer or ""),)

    async def verify(self, submission: Submission) -> float:
        taken = bytearray(b"x" * TAKEN)
        return float(submission.final == self.task.secret.answer and len(taken) > 0)


async def test_an_audit_tells_the_memory_of_the_verifier() -> None:
    (audit,) = await audited(Large, only=("oracle",))
    assert audit.verify_bytes >= TAKEN
    assert f"{audit.verify_bytes / MIB:,.0f} MiB" in audit.verifier_took
