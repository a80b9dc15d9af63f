"""A Ray cluster to use: one that runs already, or one on this machine for as long as it is needed."""

import importlib.util
import logging
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from pydantic import JsonValue

from envhub.engine.pool_options import RayOptions
from envhub.errors import ConfigError, UsageError

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
_NO_RAY = "the Ray pool needs Ray: pip install 'envhub[ray]'"
_START_ONE = "start one (`ray start --head`), or leave the address out"

# Ray reads these when it is imported or started; what the user has set stands.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
}


@asynccontextmanager
async def open_cluster(options: RayOptions, *, cpus: int | None = None) -> AsyncGenerator[Any]:
    """Connect to the cluster the options name, or start one here; left, or stopped again, on the way out.

    Gives the module `ray`, connected. `cpus`: how many the started cluster has; None is as many as the machine.

    Raises:
        ConfigError: Ray is not installed.
        UsageError: no cluster answers at the address.
    """
    ray = _import_ray()
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, options, cpus)
    try:
        yield ray
    finally:
        if is_ours:
            ray.shutdown()


async def check_cluster(options: RayOptions) -> None:
    """Look whether there is anything to connect to, before a run begins: Ray itself would wait for two minutes.

    Raises:
        ConfigError: Ray is not installed.
        UsageError: nothing listens at the address.
    """
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(_NO_RAY)
    place = (options.address or "").removeprefix("ray://")
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        with anyio.fail_after(CONNECT_SECONDS):
            stream = await anyio.connect_tcp(host.strip("[]"), int(port))
    except (OSError, TimeoutError) as error:
        said = str(error) or f"no answer within {CONNECT_SECONDS:g} s"
        raise UsageError(f"no Ray cluster answers at {options.address}: {said}; {_START_ONE}") from None
    await stream.aclose()


def _import_ray() -> Any:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise ConfigError(_NO_RAY) from None
    return ray


def _connect(ray: Any, options: RayOptions, cpus: int | None) -> None:
    # Ray takes SIGTERM for itself; whoever runs a hub has plans for it.
    before = signal.getsignal(signal.SIGTERM)
    runtime: dict[str, JsonValue] | None = dict(options.runtime_env) or None
    given: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "runtime_env": runtime}
    try:
        if options.address is None:
            # A cluster of this process alone needs no tokens, and other clusters on this machine are not joined.
            os.environ.setdefault("RAY_AUTH_MODE", "disabled")
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **given)
        else:
            ray.init(address=options.address, **given)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = "on this machine" if options.address is None else f"at {options.address}"
        said = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"no Ray cluster could be used {where}: {said}" + ("" if options.address is None else f"; {_START_ONE}")
        ) from error
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
