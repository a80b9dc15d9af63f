"""The module `ray`, imported with the hub's settings, and this process's connection to a cluster."""

import logging
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from pydantic import JsonValue

from rollouthub.engine.pool_options import RayOptions
from rollouthub.errors import ConfigError, UsageError
from rollouthub.plugins.extras import pip_install

START_ONE = "start one (`ray start --head`), or leave the address out"

# Ray reads these when it is imported or started; what the user has set stands.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray prints these to stdout, amid what the hub prints there; the run's log says them in its own words.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed|killed due to memory pressure|has been marked dead|"
    "cannot be scheduled right now|infeasible resource requests",
}


def no_ray() -> ConfigError:
    """The error where Ray is not installed."""
    return ConfigError(f"the Ray pool needs Ray: {pip_install('ray')}")


def import_ray() -> Any:
    """The module `ray`.

    Raises:
        ConfigError: Ray is not installed.
    """
    was_loaded = "ray" in sys.modules
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise no_ray() from None
    if was_loaded and not ray.is_initialized():
        # It read its variables before they were set; this is how Ray itself reads them again.
        compiled: Any = import_module("ray._raylet")
        compiled.Config.initialize("")
    return ray


class _NoFolders(list[str]):
    """An import path that stays empty: Ray would put the driver's working folder first on its workers' import path."""

    def extend(self, _: Iterable[str]) -> None:
        """Ignore the folders that Ray adds."""


def _job_config() -> Any:
    from ray.job_config import JobConfig

    config = JobConfig()
    # Ray knows no other way; a runtime environment's `working_dir` would move the workers to another folder.
    assert hasattr(config, "_py_driver_sys_path")
    config._py_driver_sys_path = _NoFolders()  # pyright: ignore[reportPrivateUsage]
    return config


def connect(ray: Any, options: RayOptions, cpus: int | None = None) -> None:
    """Connect to the cluster that the options name, or start one; blocks for seconds.

    Raises:
        UsageError: the cluster cannot be used.
    """
    runtime: dict[str, JsonValue] | None = dict(options.runtime_env) or None
    given: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "runtime_env": runtime}
    given["job_config"] = _job_config()
    # Outside the main thread Ray cannot take SIGTERM for itself, and warns of it; whoever runs a hub has plans for it.
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        if options.address is None:
            # Other clusters on this machine are not joined.
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **given)
        else:
            ray.init(address=options.address, **given)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = "on this machine" if options.address is None else f"at {options.address}"
        said = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"no Ray cluster could be used {where}: {said}" + ("" if options.address is None else f"; {START_ONE}")
        ) from error
