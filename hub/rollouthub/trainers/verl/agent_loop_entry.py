"""The hub's entry in the file `agent_loop_config_path`, for the managers; veRL itself passes it to agent loops."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from rollouthub.errors import ConfigError

TARGET = "rollouthub.trainers.verl.HubAgentLoop"
SERVED = "served"
"""Value of `base_url` that stands for the addresses of veRL's own replicas."""


async def read_entry(path: str | None, client: Any) -> dict[str, Any]:
    """The hub's entry of a file of agent loops; a `base_url` of `served` is replaced by the addresses of `client`'s
    replicas.

    Raises:
        ConfigError: no file is named, it has no entry for the hub, or there are no replicas.
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
    """The settings `run`, `components`, `groups` and `rewards` of the hub's entry in a list of agent loops.

    Raises:
        ConfigError: there is no such entry.
    """
    for entry in entries:
        if entry.get("_target_") == TARGET:
            return {key: entry[key] for key in ("run", "components", "groups", "rewards") if key in entry}
    raise ConfigError(f"rollout.agent.agent_loop_config_path has no entry with _target_: {TARGET}")


async def served_urls(client: Any) -> list[str]:
    """The base URLs of the replicas that veRL's client balances between, for OpenAI clients.

    Raises:
        ConfigError: there are no replicas.
    """
    balancer: Any = getattr(client, "_load_balancer", None)
    addresses: list[str] = [] if balancer is None else await balancer.get_all_servers.remote()
    if not addresses:
        raise ConfigError("veRL has no replicas that are served over HTTP; leave `base_url` out, or name addresses")
    return [f"http://{address}/v1" for address in addresses]
