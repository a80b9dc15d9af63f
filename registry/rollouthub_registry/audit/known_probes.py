"""What the probes and cheats of the hub look at, by name."""

from rollouthub_registry.audit.cheats import all_cheats
from rollouthub_registry.audit.probes import PROBES


def titles() -> dict[str, str]:
    """Probe or cheat → what holds where it finds nothing."""
    return {probe.name: probe.title for probe in (*PROBES, *all_cheats())}
