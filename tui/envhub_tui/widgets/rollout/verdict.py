"""The score of a rollout as a document; of one that has none, what became of it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich.text import Text

from envhub.amounts import count, dollars, number, seconds, short
from envhub.drawing.outcomes import ENDINGS
from envhub.rollout import Rollout
from envhub.score import ModelCall, Score
from envhub.watching.columns import Columns
from envhub_tui.widgets.rollout.document import Piece, Section
from envhub_tui.widgets.rollout.drawn import drawn_line
from envhub_tui.widgets.rollout.transcript import MESSAGE_ROWS, fault_pieces, said

_BAR = 24
_KINDS = {
    "agent_failure": "The agent failed",
    "infrastructure_fault": "What the rollout ran on broke",
    "verifier_fault": "The verifier broke",
    "cancelled": "It was cut short",
    "scored": "It was scored",
}


@dataclass(frozen=True, slots=True)
class Mates:
    """The samples of the same task that count: their rewards, None for each that has none."""

    rewards: tuple[float | None, ...]

    @classmethod
    def of(cls, columns: Columns, place: int) -> "Mates":
        """Those of a row, itself included where it counts."""
        codes = columns.words["group_id"].codes
        group = codes[place]
        rewards = columns.numbers["reward"]
        found = [rewards[row] for row, code in enumerate(codes) if code == group and columns.effective[row]]
        return cls(tuple(None if math.isnan(reward) else reward for reward in found))


def verdict(rollout: Rollout, mates: Mates | None) -> list[Section]:
    """What there is to say of how it ended."""
    sections = [_section("outcome", "Outcome", _outcome(rollout))]
    score = rollout.score
    if score is not None:
        if score.components:
            sections.append(_section("components", "Components of the reward", _components(score)))
        if score.metrics:
            lines = [f"{drawn_line(name, 60):<28} {value:g}" for name, value in score.metrics.items()]
            sections.append(_section("metrics", "Metrics", [Text(line) for line in lines]))
        if score.feedback:
            feedback = score.feedback
            sections.append(
                Section(
                    "feedback",
                    lambda width, is_open: Text("Feedback of the verifier", style="bold"),
                    lambda: [Piece("feedback", feedback, folded_rows=MESSAGE_ROWS, indent=2)],
                )
            )
    if rollout.faults:
        sections.append(
            Section("faults", _heading(count(len(rollout.faults), "fault")), partial(fault_pieces, rollout))
        )
    if mates is not None and len(mates.rewards) > 1:
        sections.append(_section("mates", "Samples of the same task", _mates(mates, rollout.reward)))
    sections.append(_section("training", "For training", _training(rollout)))
    if rollout.answer is not None:
        answer = rollout.answer
        piece = Piece("answer", answer or "(empty)", folded_rows=MESSAGE_ROWS, indent=2)
        sections.append(Section("answer", _heading("Submitted answer"), lambda: [piece]))
    if score is not None:
        sections += _calls(score.judge_calls, "Judge call")
    sections += _calls(rollout.role_calls, "Call of the environment")
    return sections


def _heading(text: str) -> "partial[Text]":
    return partial(_draw_heading, text)


def _draw_heading(text: str, width: int, is_open: bool) -> Text:
    return Text(text, style="bold")


def _section(key: str, title: str, lines: Sequence[Text]) -> Section:
    return Section(
        key, _heading(title), lambda: [Piece(f"{key} {at}", line, indent=2) for at, line in enumerate(lines)]
    )


def _fact(name: str, value: Text | str) -> Text:
    return Text.assemble((f"{name:<12}", "dim"), value)


def _outcome(rollout: Rollout) -> list[Text]:
    ending = ENDINGS[rollout.outcome.kind]
    lines: list[Text] = []
    score = rollout.score
    if score is None:
        lines += [
            _fact("outcome", Text(f"{ending.mark} {rollout.outcome.value} ({ending.word})", ending.style)),
            _fact("reward", "there is none: unscored, which is not 0"),
            _fact("", f"{_KINDS[rollout.outcome.kind]}."),
        ]
    else:
        passed = {None: "no verdict on passing", True: "passed", False: "not passed"}[score.passed]
        style = {None: "", True: "green", False: "yellow"}[score.passed]
        lines += [
            _fact("reward", Text(number(score.reward), style="bold")),
            _fact("", Text(passed, style=style)),
            _fact("outcome", Text(f"{ending.mark} {ending.word}", ending.style)),
        ]
        if (verifier := score.verifier) is not None:
            told = f"{drawn_line(verifier.name, 60)} {drawn_line(verifier.version, 20)}"
            lines.append(_fact("verifier", Text.assemble(told, (f"  {drawn_line(verifier.digest, 24)}…", "dim"))))
        if score.turn_rewards:
            lines.append(_fact("turns", f"{count(len(score.turn_rewards), 'turn')} have rewards of their own"))
    lines.append(_fact("stopped", rollout.stop.value.replace("_", " ")))
    return lines


def _components(score: Score) -> list[Text]:
    most = max((abs(part.value * part.weight) for part in score.components.values()), default=0.0)
    lines: list[Text] = []
    for name, part in score.components.items():
        share = part.value * part.weight
        filled = round(_BAR * abs(share) / most) if most else 0
        lines.append(
            Text.assemble(
                f"{drawn_line(name, 24):<24} ",
                ("█" * filled, "red" if share < 0 else "green"),
                ("░" * (_BAR - filled), "dim"),
                f" {part.value:g} × {part.weight:g} = ",
                (number(share), "bold"),
            )
        )
    return lines


def _mates(mates: Mates, own: float | None) -> list[Text]:
    scored = [reward for reward in mates.rewards if reward is not None]
    unscored = len(mates.rewards) - len(scored)
    lines = [_fact("samples", count(len(mates.rewards), "sample") + (f", {unscored} unscored" if unscored else ""))]
    if scored:
        shown = "  ".join(map(number, sorted(scored)[:64])) + (" …" if len(scored) > 64 else "")
        mean = sum(scored) / len(scored)
        spread = math.sqrt(sum((reward - mean) ** 2 for reward in scored) / len(scored))
        lines += [_fact("rewards", shown), _fact("mean", f"{number(mean)}, standard deviation {number(spread)}")]
        if own is not None and spread > 0:
            told = f"{own - mean:+.3f} from the mean, {(own - mean) / spread:+.2f} deviations"
            lines.append(_fact("advantage", told))
        elif own is not None:
            lines.append(_fact("advantage", "none: all are alike, so there is nothing to learn from"))
    return lines


def _training(rollout: Rollout) -> list[Text]:
    why = drawn_line(rollout.trainable_reason or "no reason was recorded")
    lines = [_fact("trainable", Text("yes", style="green") if rollout.trainable else Text(f"no: {why}"))]
    if rollout.gaps:
        lines.append(_fact("missing", ", ".join(drawn_line(gap, 60) for gap in rollout.gaps)))
    if rollout.retuned is not None:
        limits = rollout.retuned.model_dump(exclude_none=True)
        told = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in limits.items()) or "none"
        lines.append(_fact("retuned", f"a person changed its limits while it was played, to: {told}"))
    for told in rollout.told:
        said = f"{drawn_line(told.text, 120)!r} ({seconds(told.at)} in): its score is not the agent's alone"
        lines.append(_fact("told", f"a person said to {drawn_line(told.seat, 40)}: {said}"))
    versions = (rollout.policy_version_min, rollout.policy_version_max)
    if versions != (None, None):
        lines.append(_fact("policy", f"versions {versions[0]} to {versions[1]}"))
    return lines


def _calls(calls: Sequence[ModelCall], title: str) -> Iterator[Section]:
    for place, call in enumerate(calls):
        yield Section(
            (title, place),
            partial(_call_title, f"{title} {place + 1}", call),
            partial(_call_pieces, call),
            len(calls) < 5,
        )


def _call_title(title: str, call: ModelCall, width: int, is_open: bool) -> Text:
    cost = f" · {dollars(call.cost)}" if call.cost is not None else ""
    told = Text.assemble(
        (title, "bold"),
        f" · {drawn_line(call.role, 24)} · {drawn_line(call.model, 40)} · {short(call.prompt_tokens)} + "
        f"{short(call.output_tokens)} tokens · {seconds(call.seconds)}{cost}",
    )
    if call.error is not None:
        told.append(" · failed", "bold red")
    told.truncate(width, overflow="ellipsis")
    return told


def _call_pieces(call: ModelCall) -> list[Piece]:
    pieces = [
        said(f"message {at}", message.role, message.role, message.text) for at, message in enumerate(call.messages)
    ]
    if call.response is not None:
        pieces.append(said("reply", "reply", "assistant", call.response.text))
    if call.error is not None:
        pieces.append(Piece("error", call.error, head=Text("it failed", style="red")))
    return pieces
