"""A Ray cluster to use: one that runs already, or one on this machine for as long as it is needed."""

import logging
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import JsonValue

from envhub.engine.pool_options import RayOptions
from envhub.errors import ConfigError, UsageError

logger = logging.getLogger(__name__)

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


def _import_ray() -> Any:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise ConfigError("the Ray pool needs Ray: pip install 'envhub[ray]'") from None
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
            f"no Ray cluster could be used {where}: {said}"
            + ("" if options.address is None else "; start one (`ray start --head`), or leave the address out")
        ) from error
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
