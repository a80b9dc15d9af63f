"""The progress of a run on the terminal: a bar where there is one, plain lines elsewhere."""

import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

import anyio
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from envhub.engine.plan import Plan
from envhub.rollout import Outcome, Rollout
from envhub.statistics import RunningMeans

BAR_SECONDS, LINE_SECONDS = 0.1, 10.0


class _Bar(Progress):
    """The bar, and below it the facts: beside it, they would squeeze it out of a narrow terminal."""

    facts = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is drawn."""
        yield from super().get_renderables()
        yield Text(self.facts)


class LiveView:
    """Counts what is committed, a few additions a rollout, and draws it on a timer."""

    def __init__(self, console: Console, plan: Plan, *, is_quiet: bool = False) -> None:
        self._console = console
        self._is_bar = console.is_terminal and not is_quiet
        self._is_quiet = is_quiet
        self.has_started = False
        """Whether the run plays."""
        self._means = RunningMeans()
        self._unscored: dict[str, Outcome] = {}
        """Samples whose latest attempt is unscored: a later attempt takes its place."""
        self._tokens, self._cost = 0, 0.0
        self._done_before = self._retries = 0
        self._started = time.monotonic()
        self._bar = _Bar(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            auto_refresh=False,
        )
        names = "+".join(planned.name for planned in plan.environments)
        self._task = self._bar.add_task(names, total=None)

    def __enter__(self) -> Self:
        if self._is_bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_bar:
            self._draw()
            self._bar.stop()
        elif not self._is_quiet and self._means.planned:
            self._console.print(self._line(), highlight=False)

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """The run is about to play."""
        self.has_started = True
        self._means.planned, self._done_before = planned, done
        self._started = time.monotonic()
        if bad_rows:
            self.note(f"{bad_rows} rows make no task and are left out")
        if done:
            self.note(f"resuming: {done} of {planned} rollouts are done")

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """These records are durable."""
        for rollout in rollouts:
            earlier = self._unscored.pop(rollout.rollout_id, None)
            if earlier is not None:
                self._means.outcomes[earlier] -= 1
                self._retries += 1
            score = rollout.score
            self._means.add(rollout.outcome, score and score.reward, score and score.passed)
            if score is None:
                self._unscored[rollout.rollout_id] = rollout.outcome
            for turn in rollout.turns:
                self._tokens += turn.usage.output_tokens
                self._cost += turn.cost or 0.0

    def stopped(self, reason: str) -> None:
        """The run ends before everything planned was played."""
        self.note(f"stopped: {reason}")

    async def refresh(self) -> None:
        """Draw until cancelled."""
        while not self._is_quiet:
            await anyio.sleep(BAR_SECONDS if self._is_bar else LINE_SECONDS)
            if self._is_bar:
                self._draw()
            elif self._means.planned:
                self._console.print(self._line(), highlight=False)

    def note(self, text: str) -> None:
        """Say something once, above the bar."""
        if not self._is_quiet:
            self._console.print(Text(text, style="dim"))

    def _draw(self) -> None:
        means = self._means
        self._bar.facts = " · ".join(self._facts())
        self._bar.update(
            self._task, total=means.planned or None, completed=self._done_before + means.finished, refresh=True
        )

    def _line(self) -> str:
        done = self._done_before + self._means.finished
        return " · ".join([f"{done}/{self._means.planned}", *self._facts()])

    def _facts(self) -> list[str]:
        means = self._means
        elapsed = max(1e-9, time.monotonic() - self._started)
        rate = means.finished / elapsed
        facts = [f"{rate:.1f}/s"]
        if means.mean_reward is not None:
            facts.append(f"reward {means.mean_reward:.3f}")
        if means.pass_rate is not None:
            facts.append(f"pass {means.pass_rate:.1%}")
        for kind, count in sorted(means.kinds.items()):
            if kind != "scored":
                facts.append(f"{kind.replace('_', ' ')}s {count}" if kind != "cancelled" else f"cancelled {count}")
        if self._retries:
            facts.append(f"retried {self._retries}")
        if self._tokens:
            facts.append(f"{_short(self._tokens)} tokens")
        if self._cost:
            facts.append(f"${self._cost:.2f}")
        left = means.planned - self._done_before - means.finished
        if rate and left > 0:
            facts.append(f"ETA {_clock(left / rate)}")
        return facts


def _short(count: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _clock(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
