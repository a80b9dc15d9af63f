"""The progress of a run: a few lines redrawn in place on a terminal, plain lines elsewhere."""

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from rich.console import Console
from rich.text import Text

from rollouthub.cli.console import warn
from rollouthub.cli.redrawn_lines import Foot
from rollouthub.engine.plan import Plan
from rollouthub.live.follow.played_so_far import PlayedSoFar
from rollouthub.rollout import Rollout
from rollouthub.statistics import amounts
from rollouthub.views.terminal.bar_blocks import spark
from rollouthub.views.terminal.ending_bar import outcome_bar, outcome_legend
from rollouthub.views.terminal.headline import headline
from rollouthub.views.terminal.progress_line import progress_line, speed
from rollouthub.views.terminal.reward_bars import reward_spark
from rollouthub.views.terminal.stage_table import stage_line
from rollouthub.views.terminal.text_fit import GAP, LABEL, cut

FRAME_SECONDS, LINE_SECONDS = 0.2, 10.0
MEDIAN_SECONDS = 1.0
_WIDEST, _WIDEST_BAR, _WIDEST_SPARK = 120, 48, 40
_OTHER_LINES = 2
"""Lines of the terminal that stay free for the output above the progress."""


class LiveView:
    """Counts committed rollouts and draws the progress on a timer."""

    def __init__(self, console: Console, plan: Plan, *, is_quiet: bool = False, directory: Path | None = None) -> None:
        """`directory` is named in a hint on how to watch the run; None prints no hint."""
        self._console, self._directory = console, directory
        self._is_drawn = console.is_terminal and not console.is_dumb_terminal and not is_quiet
        self._is_quiet = is_quiet
        self.has_started = False
        """Whether the run has begun to play episodes."""
        self._played = PlayedSoFar()
        self._foot = Foot(console)
        self._medians: tuple[float, dict[str, float]] = (0.0, {})
        model = () if plan.model is None else (plan.model.name,)
        agent = () if plan.asks_for_agent else (plan.agent_name,)
        self._title = ("+".join(planned.name for planned in plan.environments), *agent, *model)

    def __enter__(self) -> Self:
        if self._is_drawn:
            self._foot.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._played.end()
        if self._is_drawn:
            # The tables that follow say the rest.
            self._foot.stop(self._lines()[:3] if self.has_started else [])
        elif not self._is_quiet and self._played.means.planned:
            self._console.print(self._line(), highlight=False)

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Record that the run begins to play, and print what is already done or left out."""
        self.has_started = True
        self._played.start(planned, done)
        if bad_rows:
            self.warn(f"{bad_rows} rows make no task and are left out")
        if done:
            self.note(f"resuming: {done} of {planned} rollouts are done")
        if self._directory is not None:
            self.note(f"watch it: hub watch {shlex.quote(str(self._directory))}")

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Count rollouts that the store has committed."""
        self._played.add(rollouts)

    def stopped(self, reason: str) -> None:
        """Warn that the run ends before all planned samples were played."""
        self.warn(f"stopped: {reason}")

    async def refresh(self) -> None:
        """Redraw on a timer until cancelled."""
        while not self._is_quiet:
            await anyio.sleep(FRAME_SECONDS if self._is_drawn else LINE_SECONDS)
            if self._is_drawn:
                self._foot.draw(self._lines())
            elif self._played.means.planned:
                self._console.print(self._line(), highlight=False)

    def note(self, text: str) -> None:
        """Print a line once, above the progress; nothing under `--quiet`."""
        if not self._is_quiet:
            self._console.print(Text(text, style="dim"))

    def warn(self, text: str) -> None:
        """Print a warning, also under `--quiet`."""
        if self._is_quiet:
            warn(text)
        else:
            self.note(text)

    def _lines(self) -> list[Text]:
        """The lines of the progress: as many as the terminal has room for, the most important first."""
        # One cell is left free: what fills the last one would be two rows in some terminals.
        width = max(10, min(self._console.width - 1, _WIDEST))
        played = self._played
        room = max(1, self._console.height - _OTHER_LINES)
        lines = [progress_line(played.progress, width, has_status=False)]
        if room >= 4:
            lines.insert(0, Text(cut(" · ".join(self._title), width), "bold"))
        if not played.means.finished:
            return lines[:room]
        lines += [headline(played.figures, width, 1), self._outcomes(width), self._sparks(width)]
        lines.append(stage_line(self._stages(), width))
        return [line for line in lines[:room] if line.cell_len]

    def _outcomes(self, width: int) -> Text:
        means = self._played.means
        kinds, judged, passed = means.kinds, means.judged, means.passed
        legend = outcome_legend(kinds, width, 1, judged=judged, passed=passed)
        room = min(_WIDEST_BAR, width - legend.cell_len - len(GAP))
        return legend if room < 8 else Text(GAP).join([outcome_bar(kinds, room, judged=judged, passed=passed), legend])

    def _sparks(self, width: int) -> Text:
        """The distribution of rewards, and the speed over time, as sparklines."""
        played = self._played
        rewards = Text.assemble(("rewards ", LABEL), reward_spark(played.rewards.bins, width // 2))
        points = played.points[-_WIDEST_SPARK:]
        peak = max((point.finished / point.seconds for point in points), default=0.0)
        line = spark([point.finished for point in points])
        speeds = Text.assemble(("speed ", LABEL), (line, "magenta"), (f" up to {speed(peak)}", LABEL))
        both = Text(GAP).join([rewards, speeds])
        return both if both.cell_len <= width else rewards

    def _stages(self) -> dict[str, float]:
        """Median seconds by stage, computed again when they are more than a second old."""
        at, medians = self._medians
        now = time.monotonic()
        if now - at > MEDIAN_SECONDS:
            medians = self._played.medians()
            self._medians = (now, medians)
        return medians

    def _line(self) -> str:
        return " · ".join([f"{self._played.done}/{self._played.means.planned}", *self._facts()])

    def _facts(self) -> list[str]:
        played, means = self._played, self._played.means
        progress = played.progress
        facts = [speed(progress.rate)]
        if means.mean_reward is not None:
            facts.append(f"reward {amounts.number(means.mean_reward)}")
        if means.pass_rate is not None:
            facts.append(f"pass {amounts.share(means.pass_rate)}")
        for kind, count in sorted(means.kinds.items()):
            if kind != "scored":
                facts.append(f"{kind.replace('_', ' ')}s {count}" if kind != "cancelled" else f"cancelled {count}")
        if played.retries:
            facts.append(f"retried {played.retries}")
        if played.tokens:
            facts.append(f"{amounts.short(played.tokens)} tokens")
        if played.cost:
            facts.append(amounts.dollars(played.cost))
        if progress.eta_seconds is not None and progress.share != 1:
            facts.append(f"ETA {amounts.clock(progress.eta_seconds)}")
        return facts
