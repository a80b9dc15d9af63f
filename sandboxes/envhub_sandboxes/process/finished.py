"""What became of a program."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Output:
    """One stream of a program: its beginning and its end, where it wrote more than is kept."""

    head: bytes
    tail: bytes
    dropped_bytes: int
    """Between the two; 0 where everything is kept, which then is all in `head`."""

    @property
    def text(self) -> str:
        """As UTF-8, with a line that says how much is missing where it is missing."""
        head, tail = self.head.decode(errors="replace"), self.tail.decode(errors="replace")
        return f"{head}\n[… {self.dropped_bytes:,} bytes dropped …]\n{tail}" if self.dropped_bytes else head + tail


@dataclass(frozen=True)
class Finished:
    """How a program ended and what it said. No process of it is left."""

    stdout: Output
    stderr: Output
    exit_status: int | None
    """As `subprocess` gives it: negative for a signal; None where it was stopped at its deadline."""
    timed_out: bool
    """It was stopped at its deadline of wall time."""
    seconds: float
    """Wall time."""
    cpu_seconds: float
    """CPU time of all its processes."""
    used_up_its_cpu: bool
    """It was stopped for the CPU time that one of its processes took."""
