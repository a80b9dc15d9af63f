"""Checks that samples are those that the run's settings lead to: their ids, seeds, numbers, and the sampling used."""

import hashlib
from collections.abc import Iterator
from typing import Any, cast

from rollouthub.engine.episode_seed import episode_seed
from rollouthub.gateway.sessions.external_agent import PRACTICE
from rollouthub.rollout import Rollout
from rollouthub.store import AttemptSummary, RunInfo
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.evidence import asks_model, attempt_name, request_of

_SAMPLING = ("temperature", "top_p", "stop")
"""Sampling settings that every model call of a run has as they were asked for; others may be bounded by limits."""


class PlanCheck:
    """Compares ids, seeds and sample numbers with what the settings lead to."""

    def __init__(self, info: RunInfo) -> None:
        request = request_of(info.resolved)
        seed, repeats = request.get("seed"), request.get("repeats")
        self._seed = seed if isinstance(seed, int) else 0
        self._repeats = repeats if isinstance(repeats, int) and not info.resumptions else None
        self._is_planned = info.planned is not None and info.status == "finished"
        self._ids, self._samples = Problems(), Problems()
        self._groups: dict[str, set[int]] = {}
        self._seen = self._derived = 0

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Look at one record."""
        self._seen += 1
        self._groups.setdefault(rollout.group_id, set()).add(rollout.sample)
        task = f"{rollout.environment.name}\0{rollout.task.split}\0{rollout.task.id}"
        if rollout.group_id == _hash(task):
            self._derived += 1
            ref = rollout.task
            if rollout.seed != episode_seed(self._seed, rollout.environment.name, ref.split, ref.id):
                self._ids.add(
                    f"{attempt_name(rollout)}: seed {rollout.seed} does not follow from the run's and its task"
                )
        elif rollout.group_id in (_hash(f"{task}\0{rollout.seed}"), f"{PRACTICE}-{_hash(task)}"):
            self._derived += 1  # practice has a seed that nobody can derive
        else:
            self._ids.add(f"{attempt_name(rollout)} is not the id of task {rollout.task.id}")
        if rollout.rollout_id != f"{rollout.group_id}-{rollout.sample}":
            self._ids.add(f"{attempt_name(rollout)} is not the id of sample {rollout.sample} of its group")

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        if not self._seen:
            return
        if not self._derived:
            said = "ids and seeds are not made of tasks here, so a rollout in another's place would not show by them"
            yield Claim("ids", "not_provable", said, self._seen)
            return
        if self._ids:
            said = f"{counted(self._ids.count, 'rollout')} stand in the place of another, by their ids and seeds"
            yield self._ids.refutes("ids", said, self._seen)
        else:
            said = f"the ids and seeds of {counted(self._seen, 'attempt')} follow from their tasks and the run's seed"
            yield Claim("ids", "consistent", said, self._seen)
        if self._is_planned:
            yield self._sample_claim()

    def _sample_claim(self) -> Claim:
        for group, samples in self._groups.items():
            number = self._repeats or max(samples) + 1
            if lost := sorted(set(range(min(number, 10_000))) - samples):
                self._samples.add(f"{group}: sample {lost[0]} of {number} is not there")
        if self._samples:
            said = f"samples of {counted(self._samples.count, 'task')} are not there, and the run says it is complete"
            return self._samples.refutes("samples", said, self._seen)
        said = f"each of {counted(len(self._groups), 'task')} has all of its samples"
        return Claim("samples", "consistent", said, self._seen)


class SamplingCheck:
    """Compares the sampling settings of each call with those that were asked for."""

    def __init__(self, info: RunInfo) -> None:
        request = request_of(info.resolved)
        sampling = request.get("sampling")
        asked = cast(dict[str, Any], sampling) if isinstance(sampling, dict) else {}
        self._asked = {name: asked[name] for name in _SAMPLING if asked.get(name) is not None}
        self._is_seeded = isinstance(request.get("seed"), int) or asked.get("seed") is not None
        self._problems = Problems()
        self._answers = self._rollouts = 0

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Look at one record; seats with players of their own, and fallback models, may have their own sampling."""
        own = [turn for turn in rollout.turns if turn.agent not in rollout.seats and turn.model is None]
        answered = list(filter(asks_model, own))
        self._rollouts += bool(answered)
        self._answers += len(answered)
        for turn in answered:
            for name, value in self._asked.items():
                used = turn.sampling.get(name)
                if used != value:
                    self._problems.add(f"{attempt_name(rollout)}, turn {turn.index}: {name} {used}, not {value}")

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        if not self._answers:
            return
        shown = ", ".join(f"{name} {value}" for name, value in self._asked.items()) or "left to the server"
        if self._problems:
            said = f"{counted(self._problems.count, 'answer')} were sampled otherwise than the run asked for ({shown})"
            yield self._problems.refutes("sampling_used", said, self._rollouts)
            return
        pinned = "with seeds" if self._is_seeded else "without a seed, so nobody can sample the same again"
        said = f"{counted(self._answers, 'answer')} were asked for as the settings say: {shown}; {pinned}"
        yield Claim("sampling_used", "consistent", said, self._rollouts)


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
