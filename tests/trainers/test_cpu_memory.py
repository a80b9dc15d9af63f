"""A process that computes on a CPU keeps what it freed."""

import subprocess
import sys

import pytest

FAULTS = """
import resource
from rollouthub.trainers.cpu_memory import keep_freed_memory
{call}
bytearray(40 * 2**20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    bytearray(40 * 2**20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(call: str) -> int:
    """Pages that a process gets of the kernel for the same 40 MiB, ten times."""
    done = subprocess.run(
        [sys.executable, "-c", FAULTS.format(call=call)], check=True, capture_output=True, text=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's setting")
def test_freed_memory_is_used_again_without_asking_the_kernel() -> None:
    assert faults("keep_freed_memory()") < 100
    assert faults("") > 1_000, "a system that keeps it anyway needs no setting"
