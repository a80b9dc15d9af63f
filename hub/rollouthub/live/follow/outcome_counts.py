"""Counts of outcomes, and sums of the attempts' tokens, calls and cost."""

from collections import Counter
from math import isnan

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.incremental import IncrementalView
from rollouthub.rollout import Outcome, OutcomeKind
from rollouthub.statistics.means import RewardMeans


class OutcomeCounts(IncrementalView, RewardMeans):
    """Outcomes and rewards over effective attempts; tokens, calls and cost over all attempts."""

    def __init__(self, columns: AttemptColumns) -> None:
        super().__init__(columns)
        self._clear()

    def _clear(self) -> None:
        self._outcomes: Counter[int] = Counter()
        self._stops: Counter[int] = Counter()
        self._faults: Counter[int] = Counter()
        self.effective = self.attempts = 0
        """`effective` counts samples with a record; `attempts` counts all records, retried attempts included."""
        self.scored = self.judged = self.passed = self.suspects = 0
        self.reward_sum = 0.0
        self.turns = self.tool_calls = self.prompt_tokens = self.output_tokens = 0
        self._cost, self._priced = 0.0, 0

    def _add(self, start: int, stop: int) -> None:
        columns = self._columns
        self.attempts += stop - start
        self.effective += sum(columns.effective[start:stop])
        self._outcomes.update(columns.effective_part("outcome", start, stop))
        self._stops.update(columns.effective_part("stop", start, stop))
        self._faults.update(code for code in columns.words["fault"].codes[start:stop] if code >= 0)
        rewards = [reward for reward in columns.effective_part("reward", start, stop) if reward == reward]
        self.scored += len(rewards)
        self.reward_sum += sum(rewards)
        verdicts = Counter(columns.effective_part("passed", start, stop))
        self.judged += verdicts[0] + verdicts[1]
        self.passed += verdicts[1]
        self.suspects += sum(flag == 1 for flag in columns.effective_part("suspect", start, stop))
        self.turns += sum(columns.wholes["turns"][start:stop])
        self.tool_calls += sum(columns.wholes["tool_calls"][start:stop])
        self.prompt_tokens += sum(columns.wholes["prompt_tokens"][start:stop])
        self.output_tokens += sum(columns.wholes["output_tokens"][start:stop])
        costs = [cost for cost in columns.numbers["cost"][start:stop] if cost == cost]
        self._cost += sum(costs)
        self._priced += len(costs)

    def _withdraw(self, place: int) -> None:
        columns = self._columns
        self.effective -= 1
        self._outcomes[columns.words["outcome"].codes[place]] -= 1
        self._stops[columns.words["stop"].codes[place]] -= 1
        reward, passed = columns.numbers["reward"][place], columns.flags["passed"][place]
        if not isnan(reward):
            self.scored -= 1
            self.reward_sum -= reward
        if passed >= 0:
            self.judged -= 1
            self.passed -= passed
        self.suspects -= columns.flags["suspect"][place] == 1

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """Outcome → number of samples."""
        return {Outcome(word): count for word, count in self._named("outcome", self._outcomes).items()}

    @property
    def kinds(self) -> dict[OutcomeKind, int]:
        """Kind of outcome → number of samples."""
        kinds: Counter[OutcomeKind] = Counter()
        for outcome, count in self.outcomes.items():
            kinds[outcome.kind] += count
        return dict(kinds)

    @property
    def stops(self) -> dict[str, int]:
        """Reason to stop → number of samples."""
        return self._named("stop", self._stops)

    @property
    def faults(self) -> dict[str, int]:
        """First fault as `boundary:type` → number of attempts, retried ones included."""
        return self._named("fault", self._faults)

    @property
    def cost(self) -> float | None:
        """US dollars of all attempts; None if no price is known."""
        return self._cost if self._priced else None

    def _named(self, column: str, counts: Counter[int]) -> dict[str, int]:
        vocabulary = self._columns.words[column].vocabulary
        return {vocabulary[code]: count for code, count in counts.most_common() if count and code >= 0}
