"""A worker's share of a run: the same request, its limits of requests and tokens divided among all workers."""

from pathlib import Path
from typing import Any

from pydantic import JsonValue

from envhub.engine.plan import Plan
from envhub.engine.pool_options import RayOptions, RunLimits
from envhub.errors import ConfigError
from envhub.models.config import ModelConfig

_PER_MINUTE = ("requests_per_minute", "tokens_per_minute")


def worker_request(plan: Plan, workers: int, environment: str = "") -> bytes:
    """What one of so many workers is to play, as JSON; with an environment, that one alone.

    Raises:
        ConfigError: a limit is too small to be divided.
    """
    request = plan.request
    chosen = [planned for planned in plan.environments if environment in ("", planned.name)]
    names = {planned.name for planned in plan.environments} - {planned.name for planned in chosen}
    settings: dict[str, JsonValue] = {
        key: value for key, value in request.set.items() if not any(key.startswith(f"{name}.") for name in names)
    }
    longest = request.sampling.max_tokens
    update: dict[str, Any] = {
        "environments": tuple(_found_anywhere(planned.target) for planned in chosen),
        "set": settings,
        "agent": plan.agent_name,
        "pool": "local",
        "workers": None,
        "ray": RayOptions(),
        # What the whole run is held to is counted where its records come together.
        "run_limits": RunLimits(),
        "track": (),
        "metrics": None,
        "roles": {role: _shared(model, workers) for role, model in request.roles.items()},
        "fallbacks": tuple(_shared(model, workers) for model in request.fallbacks),
        **{name: _divided(name, getattr(request, name), workers, longest) for name in _PER_MINUTE},
    }
    return request.model_copy(update=update).model_dump_json().encode()


def _shared(model: ModelConfig, workers: int) -> ModelConfig:
    update: dict[str, Any] = {name: _divided(name, getattr(model, name), workers, None) for name in _PER_MINUTE}
    return model.model_copy(update={**update, "fallbacks": tuple(_shared(each, workers) for each in model.fallbacks)})


def _divided(name: str, limit: int | None, workers: int, longest: int | None) -> int | None:
    if limit is None:
        return None
    share = limit // workers
    if share < 1 or (name == "tokens_per_minute" and longest is not None and share < longest):
        needed = "" if longest is None or name != "tokens_per_minute" else f", and one answer may take {longest}"
        raise ConfigError(
            f"{name} = {limit} leaves each of {workers} workers {share}{needed}; use fewer workers (--workers)"
        )
    return share


def _found_anywhere(target: str) -> str:
    """An environment of a file by its whole path: workers start elsewhere, on this machine at least."""
    path = Path(target.partition(".py:")[0] + ".py") if ".py:" in target else Path(target)
    is_file = "/" in target or target.endswith((".py", ".toml")) or ".py:" in target
    return str(Path(target).absolute()) if is_file and "://" not in target and path.exists() else target
