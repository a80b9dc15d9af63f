"""A rollout in one line of words, for lists and for when it is opened."""

from math import isnan

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.transcript_search import Match
from rollouthub.rollout import Outcome
from rollouthub.statistics.amounts import count, number, seconds
from rollouthub.store import LiveState
from rollouthub.text import plain_name
from rollouthub.views.note_words import note_facts
from rollouthub_tui.text.speakable_text import lasting


def record_words(columns: AttemptColumns, place: int, *, environment: bool, match: Match | None = None) -> str:
    """An ended rollout in words; `environment` says whether to name its environment."""
    said = [_result(columns, place)]
    said += [_task(columns, place, environment), f"sample {columns.wholes['sample'][place]}"]
    if attempt := columns.wholes["attempt"][place]:
        said.append(f"attempt {attempt}")
    if not columns.effective[place]:
        said.append("replaced by a later attempt")
    said += [count(columns.wholes["turns"][place], "turn"), f"{columns.wholes['output_tokens'][place]:,} tokens"]
    said.append(seconds(columns.numbers["seconds"][place]))
    said += note_facts(columns.notes_at(place))
    if match is not None:
        said.append(f"found in turn {match.turn + 1}: {match.excerpt}")
    return ", ".join(said)


def ended_words(columns: AttemptColumns, place: int) -> str:
    """A rollout that has just ended, in words."""
    stop = columns.words["stop"][place] or ""
    several = len(columns.words["environment"].vocabulary) > 1
    task = f"{_task(columns, place, several)}, sample {columns.wholes['sample'][place]}"
    return f"ended: {task}: {_result(columns, place)}" + (f", {stop.replace('_', ' ')}" if stop else "")


def _result(columns: AttemptColumns, place: int) -> str:
    """The rollout's reward, or why it has none."""
    outcome, reward = Outcome(columns.value("outcome", place)), columns.numbers["reward"][place]
    if isnan(reward):
        fault = columns.words["fault"][place]
        because = f", {plain_name(fault).replace(':', ' ')}" if fault else ""
        return f"{outcome.value.replace('_', ' ')}{because}, unscored"
    passed = {-1: "", 0: ", not passed", 1: ", passed"}[columns.flags["passed"][place]]
    return f"reward {number(reward)}{passed}"


def _task(columns: AttemptColumns, place: int, environment: bool) -> str:
    task = f"task {plain_name(columns.words['task_id'][place] or '')}"
    return f"{plain_name(columns.words['environment'][place] or '')} {task}" if environment else task


def live_words(state: LiveState, now: float, *, plays: bool, environment: bool) -> str:
    """One line of text about a rollout: in flight, or left unfinished if its run no longer plays."""
    task = f"task {plain_name(state.task_id)}"
    said = [
        f"in flight in {state.state}" if plays else f"left unfinished in {state.state}",
        f"{plain_name(state.environment)} {task}" if environment else task,
        f"sample {state.sample}",
    ]
    if state.attempt:
        said.append(f"attempt {state.attempt}")
    said += [count(state.turn, "turn"), f"{state.output_tokens:,} tokens"]
    if plays:
        said.append(f"moved {lasting(now - state.updated_at)} ago")
    return ", ".join(said)
