"""The network access of a task: the stricter of what it declares and what the user allows."""

from rollouthub.sandbox import Network
from rollouthub_servers.terminal.harbor.settings import ContainerSettings, Phase


class NetworkRefused(Exception):
    """A task asks for a network that it does not get; the message says how to allow it."""


def resolve_network(world: ContainerSettings, phase: Phase | None, choice: Network | None, section: str) -> Network:
    """The network of a phase (`[agent]` or `[verifier]`) in a container.

    Raises:
        NetworkRefused: the task asks for an allow-list, which is not supported, or for a network that is not allowed.
    """
    own = phase is not None and phase.network_mode is not None
    mode = phase.network_mode if phase is not None and own else world.declared_network
    where = section if own else "environment"
    hosts = world.allowed_hosts or (phase.allowed_hosts if phase is not None else None)
    if mode == "allowlist" or hosts:
        raise NetworkRefused(f"[{where}] allowed_hosts: an allow-list of hosts is not offered")
    if mode == "no-network":
        return "none"
    if choice is not None:
        return choice
    if mode == "public":
        setting = "verifier_network" if own and section == "verifier" else "network"
        raise NetworkRefused(
            f"[{where}] network_mode = 'public': the task asks for a network; allow it with --set {setting}=bridge, "
            f"or run it without one with --set {setting}=none"
        )
    raise NetworkRefused(
        "[environment] network_mode is not declared (the format's default is 'public'); say which network the task "
        "gets with --set network=none or --set network=bridge"
    )
