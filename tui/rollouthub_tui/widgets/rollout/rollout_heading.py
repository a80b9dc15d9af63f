"""The heading of a rollout: which one it is, and its outcome or present stage."""

from rich.text import Text

from rollouthub.limits import Limits
from rollouthub.live.control.live_views import RolloutDetails
from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import clock, count, dollars, number, seconds, short, turn_number
from rollouthub.store import LiveState
from rollouthub.views.terminal.outcome_styles import verdict_of
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line

TABS = ("conversation", "score", "tokens", "timings", "record")


def heading_parts(
    rollout: Rollout | None, shown: RolloutDetails | None, state: LiveState | None, is_running: bool, is_reading: bool
) -> tuple[tuple[str, str, int], Text]:
    """Environment, task and sample, and the line of its outcome or stage: from its record, what its hub shows, or else
    the stored state of it.
    """
    if rollout is not None:
        return (rollout.environment.name, rollout.task.id, rollout.sample), record_line(rollout)
    if shown is not None:
        return (shown.environment, shown.task_id, shown.sample), live_line(shown)
    named = ("", "", 0) if state is None else (state.environment, state.task_id, state.sample)
    return named, Text("reading …", style="dim") if is_reading else lost_line(state, is_running)


def crumb_line(
    run: str, environment: str, task: str, sample: int, attempt: int, rollout_id: str, place: str, turn: int | None
) -> Text:
    """Where a rollout is: its run, task and sample, the turn at the cursor, its place in the list, and its id."""
    line = Text.assemble(
        (drawn_line(run, 40), "bold"),
        (" › ", "dim"),
        *((drawn_line(environment, 40), " · ") if environment and not task.startswith(environment) else ()),
        drawn_line(task, 60),
        (" › ", "dim"),
        f"sample {sample}",
        f", attempt {attempt}" if attempt else "",
    )
    if turn is not None:
        line.append(" › ", "dim").append(turn_number(turn))
    if place:
        line.append(f"  {place}", "dim")
    return line.append(f" · {drawn_line(rollout_id, 60)}", "dim")


def record_line(rollout: Rollout) -> Text:
    """How it ended: outcome, reward and stop."""
    score = rollout.score
    ending = verdict_of(rollout.outcome.kind, score and score.passed, score and score.reward)
    line = Text.assemble((f"{ending.mark} ", ending.style))
    if rollout.score is None:
        line.append(f"{ending.word}: {rollout.outcome.value}, unscored", ending.style)
    else:
        passed = {None: "", True: " passed", False: " not passed"}[rollout.score.passed]
        line.append(f"reward {number(rollout.reward)}{passed}", "bold")
    costs = [turn.cost for turn in rollout.turns if turn.cost is not None]
    tokens = sum(turn.usage.output_tokens for turn in rollout.turns)
    errors = sum(call.is_error for turn in rollout.turns for call in turn.tool_calls)
    facts = [
        rollout.stop.value.replace("_", " "),
        count(len(rollout.turns), "turn"),
        f"{short(tokens)} tokens",
        dollars(sum(costs)) if costs else None,
        seconds(rollout.timings.total),
        count(errors, "tool error") if errors else None,
        drawn_line(rollout.model, 40) if rollout.model else None,
        *(drawn_line(f"{seat}: {player.model or player.agent.name}", 60) for seat, player in rollout.seats.items()),
    ]
    for fact in facts:
        if fact:
            line.append(" · ", "dim").append(fact, "not bold")
    return line


def live_line(shown: RolloutDetails) -> Text:
    """Its present stage, and how much of its limits it has used."""
    limits: Limits = shown.limits
    took = shown.seconds
    facts = [
        f"turn {shown.turn}{_of(limits.max_turns)}",
        f"{short(shown.output_tokens)}{_of(limits.max_tokens)} tokens",
        f"{clock(took)}{f' of {clock(limits.max_seconds)}' if limits.max_seconds else ''}",
        f"{dollars(shown.cost)}{f' of {dollars(limits.max_cost)}' if limits.max_cost else ''}" if shown.cost else None,
        "limits changed by a person" if shown.retuned else None,
        drawn_line(shown.model, 40) if shown.model else None,
    ]
    line = Text.assemble(("▶ in flight: ", "bold cyan"), (shown.state, "bold"))
    for fact in facts:
        if fact:
            line.append(" · ", "dim").append(fact)
    return line


def lost_line(state: LiveState | None, is_running: bool) -> Text:
    """The stored state, turn and tokens of a rollout that has no record, as last written."""
    if state is None:
        return Text(
            "its record is not in the store yet" if is_running else "the run holds no record of it", style="dim"
        )
    word = "in flight" if is_running else "was in flight when the run died"
    return Text.assemble(
        (f"▶ {word}: ", "bold"), f"{state.state} · turn {state.turn} · {short(state.output_tokens)} tokens"
    )


def tab_line(current: str) -> Text:
    """The names of the tabs, which can be clicked."""
    line = Text(no_wrap=True)
    for place, tab in enumerate(TABS, 1):
        style = "bold reverse" if tab == current else "dim"
        part = Text(f" {place} {tab.capitalize()} ", style=style)
        part.apply_meta({"@click": f"screen.tab('{tab}')"})
        line.append_text(part).append(" ")
    return line


def _of(limit: float | None) -> str:
    return "" if limit is None else f" of {short(int(limit))}"
