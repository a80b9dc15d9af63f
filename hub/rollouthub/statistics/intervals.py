"""95 % confidence intervals for means over tasks. Tasks are the sampling unit, because a task's samples resemble each
other.

Standard errors are therefore clustered by task: computed from the tasks' means (arXiv:2411.00640).
"""

import math
from dataclasses import dataclass

Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks and its 95 % interval."""

    value: float | None
    """The mean; None if no task counts."""
    low: float | None
    """Lower end of the interval; None if fewer than two tasks count, because one task shows no spread between tasks."""
    high: float | None
    tasks: int
    """Number of tasks that count."""
    excluded: int
    """Number of tasks left out, because they have too few scored samples."""
    standard_error: float | None = None
    """Standard error of the mean, over the tasks' own means; None if fewer than two tasks count."""


@dataclass(slots=True)
class TaskMeans:
    """Mean and spread of per-task values, in one pass and constant memory (Welford; merging as in Chan et al. 1979)."""

    tasks: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of squared deviations from the mean."""
    trials: int = 0
    """Number of independent trials behind the values, over all tasks."""

    def add(self, value: float, trials: int, tasks: int = 1) -> None:
        """Add one task, or so many that are alike."""
        self.tasks += tasks
        self.trials += tasks * trials
        step = value - self.mean
        self.mean += step * tasks / self.tasks
        self.squares += tasks * step * (value - self.mean)

    def merge(self, other: "TaskMeans") -> None:
        """Add the tasks of another `TaskMeans`."""
        tasks = self.tasks + other.tasks
        if not tasks:
            return
        step = other.mean - self.mean
        self.squares += other.squares + step * step * (self.tasks * other.tasks / tasks)
        self.mean += step * (other.tasks / tasks)
        self.trials += other.trials
        self.tasks = tasks

    def estimate(self, *, all_tasks: int, is_share: bool) -> Estimate:
        """Return the mean with its interval. `is_share` means that the values are shares of binary trials."""
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
        """The standard error of the mean; needs two tasks or more."""
        return math.sqrt(self.squares / (self.tasks - 1) / self.tasks)

    def _mean_interval(self) -> tuple[float, float]:
        """The interval by Student's t over the tasks' values."""
        margin = t_quantile(self.tasks - 1) * self._standard_error
        return self.mean - margin, self.mean + margin

    def _share_interval(self, share: float) -> tuple[float, float]:
        """Wilson's interval at the effective number of trials.

        That number is the trials divided by their design effect, at most the trials, corrected for the degrees of
        freedom of few tasks (Korn and Graubard 1998; Wilson's form as recommended by Franco et al. 2019,
        doi:10.1093/jssam/smy019). With one trial per task it is the plain Wilson interval. Where all trials agree the
        design effect is unknown, and each task counts as one trial.
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
    """The 95 % interval of a proportion of independent trials (Wilson 1927).

    Raises:
        ValueError: there are no trials, or more passes than trials.
    """
    if trials < 1 or not 0 <= passed <= trials:
        raise ValueError(f"{passed} of {trials} is no proportion")
    return wilson(passed / trials, trials)


def wilson(share: float, trials: float) -> tuple[float, float]:
    """Wilson's interval for a share of `trials` trials, which may be an effective number."""
    weight = Z * Z / trials
    middle = (share + weight / 2) / (1 + weight)
    margin = Z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    # An end that is 0 or 1 by algebra must not miss it by rounding.
    return max(0.0, middle - margin) if share > 0 else 0.0, min(1.0, middle + margin) if share < 1 else 1.0


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t: exact for 1 and 2 degrees of freedom, else within 0.2 %.

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
