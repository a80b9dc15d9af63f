"""Runs the verifiers of a run's environments again, over the transcripts and states that were kept."""

import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path

from rollouthub.analysis.scoring.rescore import Rescorer, RescoreSettings
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.protocols import EnvironmentInfo
from rollouthub.rollout import Outcome, Rollout
from rollouthub.score import Score
from rollouthub.store import RunReader, record_rows
from rollouthub.store.grouped_reader import BrokenRecord
from rollouthub.store.read_only_source import ReadOnlySource
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.worlds import Chosen, Worlds, asked_servers

SAME = 1e-9
"""Rewards that differ by at most this are equal."""


class ChosenRun(RunReader):
    """A run of which only some rollouts are read; of environments that score groups, their whole groups."""

    def __init__(self, directory: Path, ids: frozenset[str]) -> None:
        self._own_source = ReadOnlySource(directory)
        super().__init__(self._own_source)
        self._ids = ids

    def close(self) -> None:
        """Close the database."""
        self._own_source.close()

    def rollouts(self, *, effective: bool = True, chosen: record_rows.Chosen | None = None) -> Iterator[Rollout]:
        """Yield the chosen records."""
        found = super().rollouts(effective=effective, chosen=chosen)
        return (each for each in found if each.rollout_id in self._ids)

    def groups(self, *, effective: bool = True) -> Iterator[list[Rollout | BrokenRecord]]:
        """Yield the groups that hold a chosen record."""
        for group in super().groups(effective=effective):
            if any(isinstance(each, Rollout) and each.rollout_id in self._ids for each in group):
                yield group

    def outcomes(self) -> dict[Outcome, int]:
        """Number of chosen records by outcome."""
        return dict(Counter(each.outcome for each in self.rollouts()))


@dataclass
class VerdictComparison:
    """Compares new verdicts with recorded ones as they come."""

    reader: RunReader
    ids: frozenset[str]
    on_progress: Callable[[int], None]
    different: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Environment → what differs."""
    unscored: Problems = field(default_factory=Problems)
    equal: int = 0
    asked: int = 0
    """Number of rollouts that were left out because their verdict asks a model at a server."""

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Compare rollouts that were verified again."""
        for again in rollouts:
            if again.rollout_id not in self.ids or again.awaits_group:
                continue
            before = self.reader.rollout(again.rollout_id)
            if again.score is None:
                why = again.faults[-1].message if again.faults else again.outcome.value
                self.unscored.add(f"{again.rollout_id}: {why}")
            elif is_same_verdict(before, again):
                self.equal += 1
            else:
                said = f"{again.rollout_id}: {verdict_of(before)} is recorded, and {verdict_of(again)} comes out"
                self.different.setdefault(again.environment.name, []).append(said)
        self.on_progress(self.equal + self.unscored.count + sum(map(len, self.different.values())))


def is_same_verdict(before: Rollout, again: Rollout) -> bool:
    """Whether two records have the same rewards, of seats and turns too, and the same pass verdict."""
    one, other = before.score, again.score
    if one is None or other is None:
        return one is other
    return one.passed == other.passed and _are_close(_rewards(one), _rewards(other))


def _rewards(score: Score) -> dict[str, float]:
    """All rewards of a score, by what they are of."""
    return {
        "": score.reward,
        **{f"component {name}": part.value for name, part in score.components.items()},
        **{f"seat {name}": reward for name, reward in score.seat_rewards.items()},
        **{f"turn {index}": reward for index, reward in score.turn_rewards.items()},
    }


def _are_close(one: dict[str, float], other: dict[str, float]) -> bool:
    return one.keys() == other.keys() and all(
        isclose(reward, other[name], rel_tol=SAME, abs_tol=SAME) for name, reward in one.items()
    )


def verdict_of(rollout: Rollout) -> str:
    """A record's verdict, for a sentence."""
    score = rollout.score
    if score is None:
        return rollout.outcome.value
    return f"reward {score.reward:g}" + ("" if score.passed is None else " passed" if score.passed else " not passed")


async def verify_again(
    worlds: Worlds,
    environments: Mapping[str, OpenEnvironment],
    reader: RunReader,
    chosen: Chosen,
    on_progress: Callable[[int], None],
) -> AsyncGenerator[Claim]:
    """Yield what running the verifiers again shows.

    Raises:
        HubError: the verifiers could not be asked.
    """
    able = {name for name, opened in environments.items() if why_not_again(opened.host.info) is None}
    ids: set[str] = set()
    asked = 0
    for rollout in reader.rollouts():
        if rollout.rollout_id in chosen.ids and rollout.environment.name in able:
            asks = asked_servers(rollout)
            asked += asks
            if not asks:
                ids.add(rollout.rollout_id)
    for name in sorted(environments.keys() - able):
        said = f"verdicts of {name}: {why_not_again(environments[name].host.info)}"
        yield Claim("verdicts", "not_provable", said)
    if asked:
        said = f"verdicts of {counted(asked, 'rollout')} ask a model at a server, which an offline check does not"
        yield Claim("verdicts", "not_provable", said, asked)
    if not ids:
        return
    comparison = VerdictComparison(reader, frozenset(ids), on_progress)
    changed_tasks = await _rescore(worlds, environments, comparison, reader.directory)
    for claim in _claims(worlds, comparison, changed_tasks, len(ids)):
        yield claim


async def _rescore(
    worlds: Worlds, environments: Mapping[str, OpenEnvironment], comparison: VerdictComparison, directory: Path
) -> int:
    """Verify the chosen rollouts again in a run that is thrown away; returns how many tasks have changed since."""
    chosen = ChosenRun(directory, comparison.ids)
    try:
        rescorer = Rescorer(chosen, environments, RescoreSettings(worlds.seed, skip_bad=True), {"for": "hub verify"})
        with tempfile.TemporaryDirectory(prefix="rollouthub-verify-", ignore_cleanup_errors=True) as scratch:
            await rescorer.run(
                Path(scratch) / "again", resume=False, begin=lambda total, done: None, on_commit=comparison.committed
            )
        return rescorer.changed_tasks
    finally:
        chosen.close()


def _claims(worlds: Worlds, comparison: VerdictComparison, changed_tasks: int, asked: int) -> Iterator[Claim]:
    for name, differences in comparison.different.items():
        verdict = "refuted" if worlds.promises(name) and not changed_tasks else "not_provable"
        why = "" if verdict == "refuted" else "; its tasks changed, or it does not promise the same score each time"
        said = f"verdicts of {name}: {counted(len(differences), 'rollout')} of {asked:,} score otherwise now{why}"
        yield Claim("verdicts", verdict, said, asked, tuple(differences[:5]))
    if comparison.unscored:
        said = f"verdicts of {counted(comparison.unscored.count, 'rollout')} could not be made again"
        yield Claim("verdicts", "not_provable", said, asked, tuple(comparison.unscored.examples))
    if comparison.equal:
        said = f"the verifiers give {counted(comparison.equal, 'rollout')} of {asked:,} the rewards that are recorded"
        yield Claim("verdicts", "proven", said, comparison.equal)


def why_not_again(info: EnvironmentInfo) -> str | None:
    """Why an environment's verifier cannot be asked again about a record; None if it can."""
    if info.scores_groups and not info.scores_samples:
        return None
    if info.scores_transcripts or info.scores_states:
        return None
    return "its verifier looks at the world an episode leaves, which no record keeps"
