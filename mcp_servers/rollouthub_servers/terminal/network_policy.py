"""The network access of a task: the stricter of what it declares and what the user allows."""

from dataclasses import dataclass

from rollouthub.sandbox import Network
from rollouthub_servers.terminal.harbor.settings import ContainerSettings, Phase


class NetworkRefused(Exception):
    """A task asks for a network that it does not get; the message says how to allow it."""


@dataclass(frozen=True)
class Access:
    """The network access of a container."""

    network: Network
    hosts: tuple[str, ...] | None = None
    """The hosts that are reached through the proxy, the only way out then; None where there is no allow-list."""


def resolve_network(world: ContainerSettings, phase: Phase | None, choice: Network | None, section: str) -> Access:
    """The access of a phase (`[agent]` or `[verifier]`) in a container.

    Raises:
        NetworkRefused: the task asks for a network that is not allowed.
    """
    own = phase is not None and phase.network_mode is not None
    mode = phase.network_mode if phase is not None and own else world.declared_network
    where = section if own else "environment"
    hosts = phase.allowed_hosts if phase is not None and own else world.allowed_hosts
    if hosts and mode != "allowlist":
        raise NetworkRefused(f"[{where}] allowed_hosts: only network_mode = 'allowlist' has such a list")
    if mode == "no-network" or choice == "none":
        return Access("none")
    if mode == "allowlist" and choice is not None:
        return Access("none", tuple(hosts or ()))
    if choice is not None:
        return Access(choice)
    setting = "verifier_network" if own and section == "verifier" else "network"
    if mode == "allowlist":
        named = ", ".join(hosts or ()) or "none"
        raise NetworkRefused(
            f"[{where}] network_mode = 'allowlist': the task asks for these hosts: {named}; allow it them, and no "
            f"other, with --set {setting}=bridge, or run it without a network with --set {setting}=none"
        )
    if mode == "public":
        raise NetworkRefused(
            f"[{where}] network_mode = 'public': the task asks for a network; allow it with --set {setting}=bridge, "
            f"or run it without one with --set {setting}=none"
        )
    raise NetworkRefused(
        "[environment] network_mode is not declared (the format's default is 'public'); say which network the task "
        "gets with --set network=none or --set network=bridge"
    )
