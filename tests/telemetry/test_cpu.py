"""CPU accounting counts everything this process started."""

import subprocess
import sys

from rollouthub.telemetry.cpu import cpu_seconds

BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"


def test_living_and_waited_for_children_count() -> None:
    before = cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        living = cpu_seconds() - before
        assert child.poll() is None
        child.communicate(b"\n")
    waited_for = cpu_seconds() - before
    assert 0.25 < living <= waited_for + 0.02
    assert waited_for < living + 0.5
