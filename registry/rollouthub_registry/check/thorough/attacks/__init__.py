"""Every attack, in the order they are made: what says most about a leak first, what may tire the server last."""

from rollouthub_registry.check.thorough.attack import Attack
from rollouthub_registry.check.thorough.attacks import (
    arguments,
    bleed,
    bodies,
    clients,
    code,
    discovery,
    endings,
    ends,
    faults,
    names,
    routes,
    shell,
    suites,
    tokens,
)

ATTACKS: tuple[Attack, ...] = (
    *discovery.ATTACKS,
    *names.ATTACKS,
    *routes.ATTACKS,
    *ends.ATTACKS,
    *tokens.ATTACKS,
    *bleed.ATTACKS,
    *faults.ATTACKS,
    *shell.ATTACKS,
    *code.ATTACKS,
    *arguments.ATTACKS,
    *clients.ATTACKS,
    *suites.ATTACKS,
    *bodies.ATTACKS,
    *endings.ATTACKS,
)
