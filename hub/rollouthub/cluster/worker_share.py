"""What a worker is given of a run: its request, and its share of the limits of requests and tokens."""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import JsonValue

from rollouthub.engine.plan import Plan
from rollouthub.engine.pool_options import RayOptions, RunLimits
from rollouthub.errors import ConfigError
from rollouthub.models.config import ModelConfig

_PER_MINUTE = ("requests_per_minute", "tokens_per_minute")


def worker_request(plan: Plan, environment: str = "") -> bytes:
    """The request that a worker plays, as JSON; only with the named environment, if one is given."""
    request = plan.request
    chosen = [planned for planned in plan.environments if environment in ("", planned.name)]
    names = {planned.name for planned in plan.environments} - {planned.name for planned in chosen}
    settings: dict[str, JsonValue] = {
        key: value for key, value in request.set.items() if not any(key.startswith(f"{name}.") for name in names)
    }
    update: dict[str, Any] = {
        "environments": tuple(planned.target for planned in chosen),
        "set": settings,
        "agent": plan.agent_name,
        "pool": "local",
        "workers": None,
        "ray": RayOptions(),
        # What the whole run is held to is counted where its records come together.
        "run_limits": RunLimits(),
        "track": (),
        "metrics": None,
    }
    return request.model_copy(update=update).model_dump_json().encode()


def check_shares(plan: Plan, workers: int) -> None:
    """Refuse a number of workers among which a limit of requests or tokens leaves too little for each.

    Raises:
        ConfigError: a limit is too small; the message names it.
    """
    for name, limit, longest in _limits(plan):
        share = limit // workers
        if share < max(1, longest or 0):
            needed = "" if longest is None else f", and one answer may take {longest}"
            raise ConfigError(
                f"{name} = {limit} leaves each of {workers} workers {share}{needed}; use fewer workers (--workers)"
            )


def most_sharing(plan: Plan) -> int | None:
    """The most workers among which the limits of requests and tokens can be divided; None if there are no limits."""
    return min((max(1, limit // max(1, longest or 0)) for _, limit, longest in _limits(plan)), default=None)


def _limits(plan: Plan) -> Iterator[tuple[str, int, int | None]]:
    """Each limit per minute: its name, its value, and the most that one answer may take of it (None if unknown)."""
    for model in _all((*([] if plan.model is None else [plan.model]), *plan.request.roles.values())):
        for name in _PER_MINUTE:
            limit: int | None = getattr(model, name)
            if limit is not None:
                is_asked = model is plan.model and name == "tokens_per_minute"
                yield name, limit, plan.request.sampling.max_tokens if is_asked else None


def _all(models: Iterable[ModelConfig]) -> Iterator[ModelConfig]:
    for model in models:
        yield model
        yield from _all(model.fallbacks)
