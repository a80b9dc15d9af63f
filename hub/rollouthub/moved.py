"""Module paths that were documented before 0.1 and have moved: they are imported from where they are now, until 0.2."""

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "gateway.client": "gateway.gateway_client",
    "gateway.service": "gateway.sessions",
    "gateway.service.wire": "gateway.sessions.sessions_wire",
    "hosting.control": "hosting.control_wire",
    "hosting.opening": "hosting.open_host",
    "installed": "plugins.installed",
    "lock": "plugins.lock",
    "loop": "event_loop",
    "manifest": "plugins.manifest",
    "models.serving": "hosting.role_endpoints",
    "rewarding": "trainers.reward_server",
    "rewards": "authoring.rewards",
    "rows": "authoring.rows",
    "segment": "export.segment",
    "submission": "score",
    "supply": "trainers.stream",
    "track": "telemetry.trackers",
    "trainers.policy.server": "trainers.policy.policy_server",
    "trainers.workers.settings": "trainers.workers.worker_settings",
    "training": "export",
    "training.blocking_scorer": "trainers.blocking_scorer",
    "training.hugging_face": "export.hf_dataset",
    "training.scorer": "trainers.scorer",
    "users": "authoring.users",
}
"""Old path below `rollouthub` → where it is now. A package's modules move with it."""

RENAMED = {"collect": "stream_rollouts"}
"""Public names by which a thing was called before, and what it is called now."""


class _Alias:
    """A loader whose module is one that stands elsewhere."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> None:
        """None: the module is made as usual, and replaced."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module that stands elsewhere in its place."""
        sys.modules[module.__name__] = import_module(self._target)


class MovedFinder:
    """Finds modules by their old paths, after all other finders, and says where they are now."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Where an old path leads; None of every other."""
        parts = fullname.split(".")
        if parts[0] != "rollouthub":
            return None
        for count in range(len(parts), 1, -1):
            home = MOVED.get(".".join(parts[1:count]))
            if home is not None:
                now = ".".join(("rollouthub", home, *parts[count:]))
                _warn(fullname, now, 2)
                return ModuleSpec(fullname, _Alias(now), is_package=True)  # pyright: ignore[reportArgumentType]
        return None


def names_of(package: str, module: str) -> Callable[[str], object]:
    """A package's `__getattr__`, where names that the package had stand in one of its modules now."""

    def named(name: str) -> object:
        if name.startswith("_") or not hasattr(now := import_module(module), name):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        _warn(f"{package}.{name}", f"{module}.{name}", 3)
        return getattr(now, name)

    return named


def current_name(package: str, name: str) -> str:
    """What a name of a package is called now; it says so where that is not what it was asked for by."""
    if name not in RENAMED:
        return name
    warnings.warn(
        f"{package}.{name} is called {package}.{RENAMED[name]} now; the old name goes with 0.2",
        FutureWarning,
        stacklevel=3,
    )
    return RENAMED[name]


def install() -> None:
    """Let old paths be imported."""
    sys.meta_path.append(MovedFinder())


def _warn(old: str, now: str, level: int) -> None:
    warnings.warn(f"{old} has moved to {now}; the old path goes with 0.2", FutureWarning, stacklevel=level + 1)
