"""The network access of a task: the stricter of what it declares and what the caller allows."""

from rollouthub.sandbox import Network
from rollouthub_servers.terminal.harbor.settings import ContainerSettings, Phase


class NetworkRefused(Exception):
    """The network a task asks for is not given to it; says how it could be."""


def resolve_network(world: ContainerSettings, phase: Phase | None, choice: Network | None, section: str) -> Network:
    """The network of a phase (`[agent]` or `[verifier]`) in a container.

    Raises:
        NetworkRefused: an allow-list, which nothing here enforces; or a network nobody has opted in to.
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
