"""A run's results in `label: value` lines, the most important first; and lines for the list of runs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import get_args

from rollouthub.live.follow import RunProgress, SeenRun
from rollouthub.live.follow.group_tables import GroupLine
from rollouthub.live.follow.reward_histogram import Bin
from rollouthub.live.follow.run_figures import RunTotals, figures_of
from rollouthub.live.follow.run_tallies import Tally
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.rollout import OutcomeKind
from rollouthub.statistics import amounts
from rollouthub.store import RunInfo
from rollouthub.store.run_facts import State
from rollouthub.text import plain_name
from rollouthub.views.terminal.outcome_styles import ENDINGS
from rollouthub.views.terminal.reward_bars import edge
from rollouthub.views.terminal.run_status import STANDINGS, standing
from rollouthub.views.terminal.trainer_words import trainer_words
from rollouthub_tui.text.speakable_text import lasting, pace
from rollouthub_tui.widgets.run_list.run_words import age, line_of

_MOST_NAMED, _MOST_BINS = 12, 12


def name_of(run: WatchedRun) -> str:
    """The name of a run's directory, made safe to print."""
    return plain_name(run.directory.resolve().name) or "(no name)"


def standing_line(run: WatchedRun) -> str:
    """The run's status in words."""
    stands = standing(run.feed.info.status, run.view and run.view.status)
    return f"Run {name_of(run)}: {stands.word}, {stands.meaning}."


def run_lines(run: WatchedRun) -> Iterator[str]:
    """A run's overview in lines."""
    info, counts = run.feed.info, run.feed.counts
    yield standing_line(run)
    yield from map(plain_name, info.origin_lines)
    if info.stopped:
        yield f"stopped because: {plain_name(info.stopped)}"
    yield f"done: {progress_words(run)}"
    yield from _figures(figures_of(counts, info.planned))
    if run.feed.trainer.steps:
        yield f"trainer: {trainer_words(run.feed.trainer.steps[-1])}"
    if counts.effective:
        yield f"endings: {endings(counts.kinds)}"
    for label, names in (("faults", counts.faults), ("agents stopped", counts.stops)):
        if names:
            yield f"{label}: {_counted(names)}"
    if info.status == "running":
        yield f"in flight: {flight_words(run)}"
    yield from _spread(run)
    yield from _played_by(run)


def progress_of(run: WatchedRun) -> RunProgress:
    """A run's present progress in words."""
    return run.feed.progress(run.clock())


def progress_words(run: WatchedRun) -> str:
    """How many rollouts of how many are done, how fast, and how long the rest will take."""
    progress = progress_of(run)
    planned, is_on = progress.planned, progress.status == "running"
    said = f"{progress.done:,}" + ("" if planned is None else f" of {planned:,}")
    if progress.share is not None:
        said += f", {int(progress.share * 1000) / 10:.1f}%"  # never 100 % before all is done
    if progress.rate is not None:
        said += f", {pace(progress.rate)}"
    if is_on and progress.eta_seconds is not None and progress.share != 1:
        said += f", about {lasting(progress.eta_seconds)} left"
    return f"{said}, {'for' if is_on else 'in'} {lasting(progress.seconds)}"


def means_words(run: WatchedRun) -> str:
    """Mean reward and pass rate in words."""
    counts = run.feed.counts
    if counts.mean_reward is None:
        return "nothing scored yet"
    passing = "" if counts.pass_rate is None else f", pass rate {amounts.share(counts.pass_rate)}"
    return f"mean reward {amounts.number(counts.mean_reward)}{passing}"


def _figures(figures: RunTotals) -> Iterator[str]:
    if figures.mean_reward is None:
        yield "mean reward: none, nothing is scored"
    else:
        yield f"mean reward: {amounts.number(figures.mean_reward)} of {figures.scored:,} scored"
    if figures.strict is not None and figures.strict != figures.mean_reward:
        yield f"strict mean reward: {amounts.number(figures.strict)}, with agent failures as 0"
    if figures.pass_rate is not None:
        yield f"pass rate: {amounts.share(figures.pass_rate)}"
    if figures.coverage is not None:
        yield f"coverage: {amounts.share(figures.coverage)} of what is planned is scored"
    if figures.retried:
        yield f"retried: {amounts.count(figures.retried, 'attempt')}"
    prompt = "" if figures.prompt_tokens is None else f", {figures.prompt_tokens:,} of prompts"
    yield f"tokens: {figures.output_tokens:,} of answers{prompt}"
    if figures.turns is not None and figures.tool_calls is not None:
        calls = amounts.count(figures.tool_calls, "tool call")
        yield f"turns: {figures.turns:,}, with {calls}"
    if figures.cost is not None:
        yield f"cost: {amounts.dollars(figures.cost)}"


def endings(kinds: Mapping[OutcomeKind, int]) -> str:
    """The number of rollouts for each kind of outcome, in words."""
    said: list[str] = []
    for kind, ending in ENDINGS.items():
        if many := kinds.get(kind, 0):
            said.append(f"{many:,} {ending.word if many == 1 else ending.plural}")
    return ", ".join(said) or "none yet"


def flight_words(run: WatchedRun) -> str:
    """How many attempts are in flight, and in which stages."""
    states = Counter(live.state for live in run.feed.live)
    total = max(states.total(), 0 if run.view is None else run.view.in_flight)
    where = [f"{states[state]:,} in {state}" for state in get_args(State) if states[state]]
    return f"{total:,}" + (f": {', '.join(where)}" if where else "")


def _counted(names: Mapping[str, int]) -> str:
    ordered = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    said = [f"{plain_name(name).replace('_', ' ')} {many:,}" for name, many in ordered[:_MOST_NAMED]]
    left = len(ordered) - len(said)
    return ", ".join(said) + (f", and {left:,} more" if left else "")


def _spread(run: WatchedRun) -> Iterator[str]:
    """The distribution of rewards, the durations of stages, and the results of each environment."""
    bins = [found for found in run.feed.histogram.bins if found.count]
    if len(bins) > 1:
        yield f"rewards: {_bins(bins)}"
    found, is_exact = run.feed.stages.shown((0.5,), is_live=run.feed.info.status == "running")
    medians = {stage: values[0] for stage, values in found.items() if values[0]}
    if medians:
        yield f"median times{'' if is_exact else ', about'}: " + ", ".join(
            f"{stage} {amounts.seconds(value)}" for stage, value in medians.items()
        )
    if len(run.feed.environments) > 1:
        for line in run.feed.environments.all()[:_MOST_NAMED]:
            yield f"environment {plain_name(line.name)}: {group_words(line)}"


def _bins(bins: list[Bin]) -> str:
    step = bins[0].high - bins[0].low
    shown = sorted(sorted(bins, key=lambda found: -found.count)[:_MOST_BINS], key=lambda found: found.low)
    said = ", ".join(f"{found.count:,} from {edge(found.low, step)}" for found in shown)
    left = sum(found.count for found in bins) - sum(found.count for found in shown)
    return f"{said}, each up to {edge(step, step)} above" + (f"; {left:,} others" if left else "")


def group_words(line: GroupLine) -> str:
    """The results of a task's or an environment's samples in words."""
    said = [f"{line.counts.scored:,} of {amounts.count(line.counts.planned, 'sample')} scored"]
    if line.pass_rate is not None:
        said.append(f"pass rate {amounts.share(line.pass_rate)}")
    if line.mean_reward is not None:
        said.append(f"mean reward {amounts.number(line.mean_reward)}")
    if line.deviation is not None:
        remark = ", nothing to learn" if line.deviation == 0 else ""
        said.append(f"std of rewards {amounts.number(line.deviation)}{remark}")
    return ", ".join(said)


def _played_by(run: WatchedRun) -> Iterator[str]:
    info = run.feed.info
    line = line_of(SeenRun(run.directory, info, run.view, None))
    known = [(label, name) for label, name in _who(line.environments, line.agent, line.model) if name != amounts.NONE]
    yield from (f"{label}: {name}" for label, name in known)
    host = f", on {plain_name(info.host)}" if info.host else ""
    yield f"began: {amounts.moment(info.created_at)}{host}"


def _who(environments: str, agent: str, model: str) -> tuple[tuple[str, str], ...]:
    return ("environments", environments), ("agent", agent), ("model", model)


def seen_run_words(run: SeenRun, tally: Tally | None, now: float) -> str:
    """One line of the list of runs."""
    line = line_of(run)
    if not isinstance(run.info, RunInfo):
        return f"{line.name}, cannot be read: {' '.join((line.problem or '').split())}"
    said = [f"{line.name}, {STANDINGS[line.status].word if line.status in STANDINGS else line.status}"]
    if tally is not None and tally.done is not None:
        said.append(f"{tally.done:,}" + ("" if line.planned is None else f" of {line.planned:,}") + " done")
    if tally is not None and tally.mean_reward is not None:
        said.append(f"mean reward {amounts.number(tally.mean_reward)}")
    if tally is not None and tally.pass_rate is not None:
        said.append(f"pass rate {amounts.share(tally.pass_rate)}")
    said += [name for _, name in _who(line.environments, line.agent, line.model) if name != amounts.NONE]
    ago = age(line.created_at, now)
    said.append("began just now" if ago == "now" else f"began {ago} ago")
    return ", ".join(said)
