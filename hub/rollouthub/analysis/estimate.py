"""Estimates the tokens, cost, time and disk that a planned run will use from a sample of it, with 95 % intervals."""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rollouthub.analysis.sample_pictures import SamplePictures
from rollouthub.analysis.sample_usage import EnvironmentSample, longest_of
from rollouthub.engine.run_request import RunRequest
from rollouthub.models.media_tokens import MEDIA_TOKENS
from rollouthub.statistics.intervals import t_quantile
from rollouthub.store import RoleUsage

CPU_SECONDS = 0.001
"""CPU seconds that the hub itself spends on a small rollout in one process: a run cannot be faster, even with an
instant model.
"""
FEW_TASKS = 5
"""With fewer sampled tasks than this, an interval says little about atypical rollouts."""
WIDE = 0.5
"""Upper half-width of an interval, as a share of the estimate, above which a larger sample is advised."""


@dataclass(frozen=True)
class Projection:
    """An estimated amount for the whole run, with its 95 % interval."""

    value: float
    low: float | None
    """Lower end of the interval; None where only one task was sampled, which shows no spread between tasks."""
    high: float | None

    def scaled(self, factor: float) -> "Projection":
        """Return the projection multiplied by a factor."""
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return Projection(self.value * factor, low, high)


@dataclass(frozen=True)
class Planned:
    """The planned numbers of tasks and rollouts of one environment."""

    tasks: int
    rollouts: int


@dataclass(frozen=True)
class LimitShare:
    """The share of a limit that the run is expected to use."""

    limit: float
    share: Projection


@dataclass(frozen=True)
class RunEstimate:
    """The estimated use of a planned run."""

    rollouts: int
    tasks: int
    sampled: int
    """Number of sampled rollouts that the estimate is made from."""
    sampled_tasks: int
    scored: int
    """Number of sampled rollouts that were scored."""
    prompt_tokens: Projection
    """Prompt tokens of the model that plays; `output_tokens` is of the same model, and `roles` has the other models'
    use.
    """
    output_tokens: Projection
    picture_tokens: float
    """How many of the prompt tokens are of pictures and sounds, by the model's rule or guessed."""
    cost: Projection | None
    """Cost in US dollars of all models; None where a price is unknown."""
    roles: dict[str, RoleUsage]
    """Role → use of the models that environments call themselves, such as judges and simulated users."""
    seconds: Projection
    bound: str
    """What determines the time: `concurrency`, `requests_per_minute`, `tokens_per_minute` or `cpu`."""
    disk_bytes: float
    limits: dict[str, LimitShare]
    """Setting, such as `run_limits.max_cost` → its limit and the expected share of it."""
    remarks: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The estimate as plain JSON fields."""
        return asdict(self)


def estimate_run(
    samples: Mapping[str, EnvironmentSample],
    planned: Mapping[str, Planned],
    request: RunRequest,
    bytes_per_rollout: float,
    pictures: SamplePictures | None = None,
) -> RunEstimate:
    """Estimate a run from a sample of each of its environments; no sample may be empty.

    The samples' prompt tokens include those of `pictures`.
    """
    parts = [(samples[name], planned[name]) for name in planned]
    rollouts = sum(plan.rollouts for plan in planned.values())
    amounts = {name: _total(parts, name) for name in ("prompt_tokens", "output_tokens", "calls", "cost", "seconds")}
    roles = _roles(parts)
    seconds, bound = _wall(parts, amounts, request, rollouts)
    is_priced = all(sample.is_priced for sample, _ in parts)
    cost = amounts["cost"] if is_priced else None
    estimate = RunEstimate(
        rollouts=rollouts,
        tasks=sum(plan.tasks for plan in planned.values()),
        sampled=sum(sample.rollouts for sample, _ in parts),
        sampled_tasks=sum(sample.tasks for sample, _ in parts),
        scored=sum(sample.scored for sample, _ in parts),
        prompt_tokens=amounts["prompt_tokens"],
        output_tokens=amounts["output_tokens"],
        picture_tokens=0.0,
        cost=cost,
        roles=roles,
        seconds=seconds,
        bound=bound,
        disk_bytes=bytes_per_rollout * rollouts,
        limits=_limits(request, amounts, cost, roles, seconds),
        remarks=(),
    )
    remarks = _remarks(estimate, parts, planned)
    if pictures is None or not pictures.sent:
        return replace(estimate, remarks=tuple(remarks))
    shown = pictures.tokens / estimate.sampled * rollouts
    return replace(estimate, picture_tokens=shown, remarks=(*remarks, *_picture_remarks(pictures)))


_Parts = Sequence[tuple[EnvironmentSample, Planned]]


def _total(parts: _Parts, quantity: str) -> Projection:
    """Project the sum of a quantity over the planned rollouts, with a prediction interval (Student's t over tasks).

    Environments are sampled independently, so the squares of their errors add up.
    """
    value, squares, is_known = 0.0, 0.0, True
    for sample, planned in parts:
        means = sample.means[quantity]
        value += means.mean * planned.rollouts
        if means.tasks < 2:
            is_known = False
            continue
        spread = math.sqrt(means.squares / (means.tasks - 1) * (1 / means.tasks + 1 / planned.tasks))
        squares += (t_quantile(means.tasks - 1) * spread * planned.rollouts) ** 2
    margin = math.sqrt(squares)
    return Projection(value, max(0.0, value - margin), value + margin) if is_known else Projection(value, None, None)


def _roles(parts: _Parts) -> dict[str, RoleUsage]:
    found: dict[str, RoleUsage] = {}
    for sample, planned in parts:
        factor = planned.rollouts / sample.rollouts
        for role, usage in sample.roles.items():
            found[role] = found.get(role, RoleUsage()) + RoleUsage(
                round(usage.calls * factor),
                round(usage.prompt_tokens * factor),
                round(usage.output_tokens * factor),
                None if usage.cost is None else usage.cost * factor,
            )
    return found


def _wall(
    parts: _Parts, amounts: Mapping[str, Projection], request: RunRequest, rollouts: int
) -> tuple[Projection, str]:
    """Project the run's time in seconds and name its bound: the work at the planned concurrency plus the longest
    rollout at the end, or the model's rate limits.
    """
    side = min(request.concurrency, rollouts)
    durations = array("d")
    for sample, _ in parts:
        durations.extend(sample.seconds)
    tail = max(0.0, longest_of(durations, side) - sum(durations) / len(durations))
    work = amounts["seconds"].scaled(1 / side)
    low, high = (None if end is None else end + tail for end in (work.low, work.high))
    bounds = {"concurrency": Projection(work.value + tail, low, high)}
    if request.requests_per_minute is not None:
        bounds["requests_per_minute"] = _held_back(amounts["calls"], request.requests_per_minute)
    if request.tokens_per_minute is not None:
        tokens = _sum(amounts["prompt_tokens"], amounts["output_tokens"])
        bounds["tokens_per_minute"] = _held_back(tokens, request.tokens_per_minute)
    bounds["cpu"] = Projection(CPU_SECONDS * rollouts, None, None)
    bound = max(bounds, key=lambda name: bounds[name].value)
    return bounds[bound], bound


def _held_back(amount: Projection, per_minute: int) -> Projection:
    """Seconds that an amount takes under a limit per minute; the first minute's amount may be used at once."""

    def seconds(amount: float) -> float:
        return max(0.0, 60 * (amount / per_minute - 1))

    low, high = (None if end is None else seconds(end) for end in (amount.low, amount.high))
    return Projection(seconds(amount.value), low, high)


def _sum(one: Projection, other: Projection, more: float = 0.0) -> Projection:
    """Add amounts that grow together, so that their errors add up linearly."""
    low = None if one.low is None or other.low is None else one.low + other.low + more
    high = None if one.high is None or other.high is None else one.high + other.high + more
    return Projection(one.value + other.value + more, low, high)


def _limits(
    request: RunRequest,
    amounts: Mapping[str, Projection],
    cost: Projection | None,
    roles: Mapping[str, RoleUsage],
    seconds: Projection,
) -> dict[str, LimitShare]:
    limits = request.run_limits
    asked = sum(usage.prompt_tokens + usage.output_tokens for usage in roles.values())
    tokens = _sum(amounts["prompt_tokens"], amounts["output_tokens"], asked)
    asked_cost = sum(usage.cost or 0.0 for usage in roles.values())
    own_cost = None if cost is None else _sum(cost, Projection(0.0, 0.0, 0.0), -asked_cost)
    found: list[tuple[str, float | None, Projection | None]] = [
        ("run_limits.max_cost", limits.max_cost, cost),
        ("budget", request.budget, own_cost),
        ("run_limits.max_tokens", limits.max_tokens, tokens),
        ("run_limits.max_seconds", limits.max_seconds, seconds),
    ]
    return {
        name: LimitShare(limit, amount.scaled(1 / limit))
        for name, limit, amount in found
        if limit and amount is not None
    }


def _remarks(estimate: RunEstimate, parts: _Parts, planned: Mapping[str, Planned]) -> list[str]:
    """Remarks on how far the figures can be trusted."""
    remarks: list[str] = []
    for (sample, plan), name in zip(parts, planned, strict=True):
        if sample.tasks < min(FEW_TASKS, plan.tasks):
            remarks.append(f"{sample.tasks} tasks of {name} are few: a larger --sample says more")
        if not sample.scored:
            remarks.append(f"nothing of {name} was scored, so nothing can be said of rollouts that do not break")
    unscored = estimate.sampled - estimate.scored
    if unscored and estimate.scored:
        remarks.append(f"{unscored} of {estimate.sampled} sampled rollouts were not scored; what they used counts")
    amounts = {"output tokens": estimate.output_tokens, "cost": estimate.cost, "time": estimate.seconds}
    for name, amount in amounts.items():
        if amount is not None and amount.high is not None and amount.high - amount.value > WIDE * amount.value:
            remarks.append(f"the interval of the {name} is wide: rollouts differ much; a larger --sample narrows it")
    unknown = [role for role, usage in estimate.roles.items() if usage.cost is None and usage.output_tokens]
    if unknown and estimate.cost is not None:
        remarks.append(f"what the models cost that are asked as {', '.join(unknown)} is not known, and not included")
    if estimate.cost is None:
        remarks.append("the cost is not known: give --price-prompt and --price-output")
    return remarks


def _picture_remarks(pictures: SamplePictures) -> list[str]:
    """Remarks on how the tokens of pictures were counted."""
    remarks: list[str] = []
    if pictures.is_adjusted:
        remarks.append(
            f"the sample's model did not count pictures as {pictures.model} does, so their tokens are calculated from "
            "their widths and heights"
        )
    if pictures.guessed:
        remarks.append(
            f"{pictures.guessed:,} of {pictures.sent:,} pictures and sounds sent are guessed as {MEDIA_TOKENS:,} "
            f"tokens each, because no rule is known for {pictures.model} or their format"
        )
    return remarks
