"""Old paths of documented modules that have moved: until version 0.2 they can still be imported, with a warning."""

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "frozen": "values",
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
    "packed": "values",
    "rewarding": "trainers.reward_server",
    "rewards": "authoring.rewards",
    "rows": "authoring.rows",
    "sampling": "generation",
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
"""Old module path below `rollouthub` → new path. The modules inside a moved package move with it."""

RENAMED = {"collect": "stream_rollouts"}
"""Old name of a public object → its new name."""


class _Alias:
    """A module loader that puts the module at a new path in place of an old one."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None: the import system makes an empty module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Import the module at the new path and register it under the old one."""
        sys.modules[module.__name__] = import_module(self._target)


class MovedFinder:
    """A meta-path finder that runs last, finds modules by their old paths, and warns with the new path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Return a spec that loads the module at its new path; None for a path that has not moved."""
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


def names_of(package: str, *modules: str) -> Callable[[str], object]:
    """Return a `__getattr__` for a package whose former attributes are now in its modules; each access warns with
    the new place.
    """

    def named(name: str) -> object:
        for module in () if name.startswith("_") else modules:
            if hasattr(now := import_module(module), name):
                _warn(f"{package}.{name}", f"{module}.{name}", 3)
                return getattr(now, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return named


def current_name(package: str, name: str) -> str:
    """Return the current name of a package's object, and warn where it differs from the requested name."""
    if name not in RENAMED:
        return name
    warnings.warn(
        f"{package}.{name} is called {package}.{RENAMED[name]} now; the old name goes with 0.2",
        FutureWarning,
        stacklevel=3,
    )
    return RENAMED[name]


def install() -> None:
    """Register the finder, so that old module paths can be imported."""
    sys.meta_path.append(MovedFinder())


def _warn(old: str, now: str, level: int) -> None:
    warnings.warn(f"{old} has moved to {now}; the old path goes with 0.2", FutureWarning, stacklevel=level + 1)
