"""What this machine's network devices have carried."""

from pathlib import Path

_COUNTS = Path("/proc/self/net/dev")
_DEVICES = Path("/sys/class/net")
_LOOPBACK = "lo"
_SENT = 8
"""Place of the bytes sent among a line's counts; those received are the first."""


def network_bytes(counts: Path = _COUNTS, devices: Path = _DEVICES) -> tuple[int, int] | None:
    """Bytes received and sent by this machine's network cards; None where the system does not tell.

    Bridges, tunnels and the ends of containers' links carry the same bytes again, and are left out. A container sees no
    card, only the end of its link: there everything but the loopback counts.
    """
    try:
        lines = counts.read_text().splitlines()[2:]
    except OSError:
        return None
    carried: dict[str, tuple[int, int]] = {}
    for line in lines:
        name, _, rest = line.partition(":")
        numbers = rest.split()
        if len(numbers) > _SENT:
            carried[name.strip()] = int(numbers[0]), int(numbers[_SENT])
    carried.pop(_LOOPBACK, None)
    cards = {name: both for name, both in carried.items() if (devices / name / "device").exists()}
    counted = (cards or carried).values()
    return sum(received for received, _ in counted), sum(sent for _, sent in counted)
