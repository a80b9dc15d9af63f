"""95 % confidence intervals for means over tasks. The task is the unit drawn; its samples resemble each other.

Standard errors are therefore clustered by task: taken over the tasks' own means (arXiv:2411.00640).
"""

import math
from dataclasses import dataclass

Z = 1.959963984540054
"""The normal's 97.5 % quantile."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks and its 95 % interval."""

    value: float | None
    """None when no task counts."""
    low: float | None
    """None when fewer than two tasks count: one says nothing of how tasks differ."""
    high: float | None
    tasks: int
    """Tasks that count."""
    excluded: int
    """Tasks left out, having too few scored samples."""
    standard_error: float | None = None
    """Of the mean, over the tasks' own means; None when fewer than two tasks count."""


@dataclass(slots=True)
class TaskMeans:
    """Mean and spread of per-task values, one pass, in constant memory (Welford; merging as Chan et al. 1979)."""

    tasks: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Summed squared deviations from the mean."""
    trials: int = 0
    """Independent trials behind the values, all tasks together."""

    def add(self, value: float, trials: int) -> None:
        """Count one task."""
        self.tasks += 1
        self.trials += trials
        step = value - self.mean
        self.mean += step / self.tasks
        self.squares += step * (value - self.mean)

    def merge(self, other: "TaskMeans") -> None:
        """Take in another's tasks."""
        tasks = self.tasks + other.tasks
        if not tasks:
            return
        step = other.mean - self.mean
        self.squares += other.squares + step * step * (self.tasks * other.tasks / tasks)
        self.mean += step * (other.tasks / tasks)
        self.trials += other.trials
        self.tasks = tasks

    def estimate(self, *, all_tasks: int, is_share: bool) -> Estimate:
        """The mean and its interval; `is_share` where the values are shares of yes-or-no trials."""
        excluded = all_tasks - self.tasks
        if not self.tasks:
            return Estimate(None, None, None, 0, excluded)
        value = min(1.0, max(0.0, self.mean)) if is_share else self.mean
        if self.tasks < 2:
            return Estimate(value, None, None, self.tasks, excluded)
        low, high = self._share_interval(value) if is_share else self._mean_interval()
        return Estimate(value, low, high, self.tasks, excluded, self._standard_error)

    @property
    def _standard_error(self) -> float:
        """Of two tasks or more."""
        return math.sqrt(self.squares / (self.tasks - 1) / self.tasks)

    def _mean_interval(self) -> tuple[float, float]:
        """Student's t over the tasks' values."""
        margin = t_quantile(self.tasks - 1) * self._standard_error
        return self.mean - margin, self.mean + margin

    def _share_interval(self, share: float) -> tuple[float, float]:
        """Wilson's interval at the effective number of trials.

        That number is the trials over their design effect, never more than the trials, corrected for the degrees of
        freedom that few tasks leave (Korn and Graubard 1998; Wilson's form as recommended by Franco et al. 2019,
        doi:10.1093/jssam/smy019). With one trial per task it is Wilson's interval as it stands. Where all agree the
        design effect cannot be seen, and a task counts once.
        """
        variance = self.squares / self.tasks
        binomial = share * (1.0 - share)
        if binomial <= 1e-12:
            return wilson(share, self.tasks)
        size = self.trials if variance * self.trials <= binomial * self.tasks else binomial / variance * self.tasks
        if self.trials > self.tasks:
            size *= (t_quantile(self.trials - 1) / t_quantile(self.tasks - 1)) ** 2
        return wilson(share, size)


def wilson_interval(passed: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a plain proportion (Wilson 1927), for trials that are independent.

    Raises:
        ValueError: there are no trials, or more passed than there are.
    """
    if trials < 1 or not 0 <= passed <= trials:
        raise ValueError(f"{passed} of {trials} is no proportion")
    return wilson(passed / trials, trials)


def wilson(share: float, trials: float) -> tuple[float, float]:
    """Wilson's interval for a share of so many trials, whole or effective."""
    weight = Z * Z / trials
    middle = (share + weight / 2) / (1 + weight)
    margin = Z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    # An end that is 0 or 1 by algebra must not miss it by rounding.
    return max(0.0, middle - margin) if share > 0 else 0.0, min(1.0, middle + margin) if share < 1 else 1.0


def t_quantile(freedom: int) -> float:
    """Student's 97.5 % quantile: exact for 1 and 2 degrees of freedom, else within 0.2 %.

    The expansion is Abramowitz and Stegun's 26.7.5.
    """
    if freedom == 1:
        return math.tan(0.475 * math.pi)
    if freedom == 2:
        return 0.95 * math.sqrt(2 / (1 - 0.95**2))
    return (
        Z
        + (Z**3 + Z) / (4 * freedom)
        + (5 * Z**5 + 16 * Z**3 + 3 * Z) / (96 * freedom**2)
        + (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / (384 * freedom**3)
        + (79 * Z**9 + 776 * Z**7 + 1482 * Z**5 - 1920 * Z**3 - 945 * Z) / (92160 * freedom**4)
    )
