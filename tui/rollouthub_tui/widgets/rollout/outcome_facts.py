"""Facts about a rollout's outcome: how it ended, how it compares with its task's samples, its use for training."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import count, number, seconds
from rollouthub.statistics.spread import deviation_of
from rollouthub.views.terminal.outcome_styles import verdict_of
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line

_KINDS = {
    "agent_failure": "The agent failed",
    "infrastructure_fault": "What the rollout ran on broke",
    "verifier_fault": "The verifier broke",
    "cancelled": "It was cut short",
    "scored": "It was scored",
}
_MOST_REWARDS = 64


class Fact(NamedTuple):
    """A label and a value."""

    name: str
    """The label; empty if the fact continues the one before."""
    value: str
    style: str = ""
    """Rich style of the value."""
    remark: str = ""
    """A less important addition."""
    mark: str = ""
    """A sign with the same meaning as the value."""


@dataclass(frozen=True, slots=True)
class Mates:
    """The rewards of all samples of a task that count; None for an unscored one."""

    rewards: tuple[float | None, ...]

    @classmethod
    def of(cls, columns: AttemptColumns, place: int) -> "Mates":
        """The samples of the task of the rollout at an index, itself included if it counts."""
        codes = columns.words["group_id"].codes
        group = codes[place]
        rewards = columns.numbers["reward"]
        found = [rewards[row] for row, code in enumerate(codes) if code == group and columns.effective[row]]
        return cls(tuple(None if math.isnan(reward) else reward for reward in found))


def outcome_facts(rollout: Rollout) -> list[Fact]:
    """How it ended, and its reward or why there is none."""
    score = rollout.score
    ending = verdict_of(rollout.outcome.kind, score and score.passed, score and score.reward)
    stopped = Fact("stopped", rollout.stop.value.replace("_", " "))
    if score is None:
        return [
            Fact("outcome", f"{rollout.outcome.value} ({ending.word})", ending.style, mark=ending.mark),
            Fact("reward", "there is none: unscored, which is not 0"),
            Fact("", f"{_KINDS[rollout.outcome.kind]}."),
            stopped,
        ]
    passed = {None: "no verdict on passing", True: "passed", False: "not passed"}[score.passed]
    facts = [
        Fact("reward", number(score.reward), "bold"),
        Fact("", passed, {None: "", True: "green", False: "yellow"}[score.passed]),
        Fact("outcome", ending.word, ending.style, mark=ending.mark),
    ]
    if score.suspect is not None:
        facts.append(Fact("suspect", drawn_line(score.suspect), "yellow"))
    if (verifier := score.verifier) is not None:
        told = f"{drawn_line(verifier.name, 60)} {drawn_line(verifier.version, 20)}"
        facts.append(Fact("verifier", told, remark=drawn_line(verifier.digest[:24])))
    facts += [Fact(f"seat {drawn_line(seat, 24)}", number(reward)) for seat, reward in score.seat_rewards.items()]
    if score.turn_rewards:
        facts.append(Fact("turns", f"{count(len(score.turn_rewards), 'turn')} have rewards of their own"))
    if score.span_rewards:
        total = sum(span.reward for span in score.span_rewards)
        facts.append(Fact("spans", f"{count(len(score.span_rewards), 'span')} of turns, {total:+g} together"))
    return [*facts, stopped]


def mates_facts(mates: Mates, own: float | None) -> list[Fact]:
    """How a reward compares with those of the same task's samples."""
    scored = [reward for reward in mates.rewards if reward is not None]
    unscored = len(mates.rewards) - len(scored)
    facts = [Fact("samples", count(len(mates.rewards), "sample") + (f", {unscored} unscored" if unscored else ""))]
    if not scored:
        return facts
    shown = "  ".join(map(number, sorted(scored)[:_MOST_REWARDS])) + (" …" if len(scored) > _MOST_REWARDS else "")
    mean, deviation = sum(scored) / len(scored), deviation_of(scored)
    facts += [Fact("rewards", shown), Fact("mean", f"{number(mean)}, std of rewards {number(deviation)}")]
    if own is not None and deviation:
        facts.append(Fact("advantage", f"{own - mean:+.3f} from the mean, {(own - mean) / deviation:+.2f} deviations"))
    elif own is not None:
        facts.append(Fact("advantage", "none: all are alike, so there is nothing to learn from"))
    return facts


def training_facts(rollout: Rollout) -> list[Fact]:
    """Whether it can be used for training, and how a person intervened."""
    why = drawn_line(rollout.trainable_reason or "no reason was recorded")
    facts = [Fact("trainable", "yes", "green") if rollout.trainable else Fact("trainable", f"no: {why}")]
    if rollout.gaps:
        facts.append(Fact("missing", ", ".join(drawn_line(gap, 60) for gap in rollout.gaps)))
    if rollout.retuned is not None:
        limits = rollout.retuned.model_dump(exclude_none=True)
        told = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in limits.items()) or "none"
        facts.append(Fact("retuned", f"a person changed its limits while it was played, to: {told}"))
    for told in rollout.told:
        said = f"{drawn_line(told.text, 120)!r} ({seconds(told.at)} in): its score is not the agent's alone"
        facts.append(Fact("told", f"a person said to {drawn_line(told.seat, 40)}: {said}"))
    versions = (rollout.policy_version_min, rollout.policy_version_max)
    if versions != (None, None):
        facts.append(Fact("policy", f"versions {versions[0]} to {versions[1]}"))
    return facts
