"""The hub's entry of `agent_loop_config_path`, as the managers read it; agent loops are handed theirs by veRL."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from rollouthub.errors import ConfigError

TARGET = "rollouthub.trainers.verl.HubAgentLoop"
SERVED = "served"
"""As `base_url`: the addresses of veRL's own replicas."""


async def read_entry(path: str | None, client: Any) -> dict[str, Any]:
    """The hub's entry of a file of agent loops, with the addresses of `client`'s replicas where it says `served`.

    Raises:
        ConfigError: no file is named, it has no entry of the hub's, or there are no replicas to ask.
    """
    if not path:
        raise ConfigError("rollout.agent.agent_loop_config_path is to name the file with the hub's agent loop")
    omegaconf: Any = import_module("omegaconf").OmegaConf
    entry = loop_entry(omegaconf.to_container(omegaconf.load(path), resolve=True))
    run: Any = entry.get("run")
    if not isinstance(run, str | None) and run.get("base_url") == SERVED:
        entry["run"] = {**run, "base_url": await served_urls(client)}
    return entry


def loop_entry(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of the hub's entry among agent loops: `run`, `components`, `groups`.

    Raises:
        ConfigError: there is none.
    """
    for entry in entries:
        if entry.get("_target_") == TARGET:
            return {key: entry[key] for key in ("run", "components", "groups") if key in entry}
    raise ConfigError(f"rollout.agent.agent_loop_config_path has no entry with _target_: {TARGET}")


async def served_urls(client: Any) -> list[str]:
    """The addresses of the replicas that veRL's client balances between, as OpenAI clients take them.

    Raises:
        ConfigError: there are none.
    """
    balancer: Any = getattr(client, "_load_balancer", None)
    addresses: list[str] = [] if balancer is None else await balancer.get_all_servers.remote()
    if not addresses:
        raise ConfigError("veRL has no replicas that are served over HTTP; leave `base_url` out, or name addresses")
    return [f"http://{address}/v1" for address in addresses]
