"""Tables with one line for each environment, or for each task's group of samples."""

from array import array
from collections import Counter
from dataclasses import dataclass
from math import isnan
from typing import Literal

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.incremental import IncrementalView
from rollouthub.live.follow.word_column import WordColumn
from rollouthub.statistics import GroupCounts
from rollouthub.statistics.pass_at_k import deviation_of

Order = Literal["met", "rollouts", "mean_reward", "pass_rate", "deviation"]
"""Sort orders of lines: a column, or `met` for the order of first occurrence."""


@dataclass(frozen=True, slots=True)
class GroupLine:
    """Figures of one environment's samples, or of one task's group of samples."""

    name: str
    """The environment's name, or the group's id."""
    environment: str
    task_id: str | None
    """The task's id; None in an environment's line."""
    counts: GroupCounts
    output_tokens: int
    """Output tokens of the effective attempts."""

    @property
    def mean_reward(self) -> float | None:
        """Mean reward over scored samples; None without any."""
        return self.counts.mean_reward

    @property
    def pass_rate(self) -> float | None:
        """Share that passed, of samples with a pass verdict; None without any."""
        return self.counts.pass_rate

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the rewards (n - 1); None with fewer than two. At 0, the group gives no training
        signal.
        """
        return self.counts.deviation


class Lines(IncrementalView):
    """Figures for each value of one column."""

    def __init__(self, columns: AttemptColumns, by: str) -> None:
        super().__init__(columns)
        self._by = by
        self._ordered: dict[tuple[Order, bool], tuple[object, list[int]]] = {}
        """Sort order → the state of the rows that it is of, and the lines in it."""
        self._clear()

    def _clear(self) -> None:
        self._first = array("q")
        self._samples, self._scored = array("q"), array("q")
        self._judged, self._passed, self._tokens = array("q"), array("q"), array("q")
        self._sums, self._squares = array("d"), array("d")

    def __len__(self) -> int:
        return len(self._first)

    def line(self, place: int) -> GroupLine:
        """One line, by its index in the order of first occurrence."""
        columns = self._columns
        first = self._first[place]
        environment = columns.words["environment"][first] or ""
        is_group = self._by != "environment"
        task_id = columns.words["task_id"][first] if is_group else None
        judged = self._judged[place]
        counts = GroupCounts(
            environment=environment,
            task_id=task_id or "",
            planned=self._samples[place],
            scored=self._scored[place],
            passed=self._passed[place] if judged else None,
            reward_sum=self._sums[place],
            reward_sq_sum=self._squares[place],
            judged=judged,
        )
        return GroupLine(self._names.vocabulary[place], environment, task_id, counts, self._tokens[place])

    def example(self, place: int) -> int:
        """The index of a line's first row in which the agent had a turn; of its first row if it never had."""
        first, turns = self._first[place], self._columns.wholes["turns"]
        if turns[first]:
            return first
        return next((row for row in self._names.rows(place) if turns[row]), first)

    def places(self, by: Order = "met", *, descending: bool = False) -> list[int]:
        """Indices of all lines in a sort order; lines without a value come last, in both directions.

        Sorted whenever there is something new, because a group's figures change with each of its samples.
        """
        state = (self._generation, self._seen, self._withdrawn)
        known, places = self._ordered.get((by, descending), (None, []))
        if known != state:
            places = self._in_order(by, descending=descending)
            self._ordered[by, descending] = state, places
        return places

    def _in_order(self, by: Order, *, descending: bool) -> list[int]:
        every = range(len(self))
        if by == "met":
            return list(reversed(every)) if descending else list(every)
        keys = [self._key(by, place) for place in every]
        absent = [place for place in every if keys[place] is None]
        present = [(key, place) for place in every if (key := keys[place]) is not None]
        present.sort(reverse=descending)
        return [*(place for _, place in present), *absent]

    def _key(self, by: Order, place: int) -> float | None:
        scored = self._scored[place]
        match by:
            case "rollouts":
                return self._samples[place]
            case "mean_reward":
                return self._sums[place] / scored if scored else None
            case "pass_rate":
                return self._passed[place] / self._judged[place] if self._judged[place] else None
            case _:
                return deviation_of(scored, self._sums[place], self._squares[place])

    def all(self) -> list[GroupLine]:
        """Return every line; meant for environments, which are few, not for groups."""
        return [self.line(place) for place in range(len(self))]

    def alike(self) -> list[GroupCounts]:
        """The counts of all lines without their tasks, those of an environment that are alike taken together: a large
        run has few that differ.
        """
        words = self._columns.words["environment"]
        environments = [words.codes[at] for at in self._first]
        rollouts = zip(environments, self._samples, self._scored, strict=True)
        verdicts = zip(self._judged, self._passed, strict=True)
        counts = Counter(zip(rollouts, verdicts, zip(self._sums, self._squares, strict=True), strict=True))
        return [
            GroupCounts(
                environment=words.vocabulary[environment],
                task_id="",
                planned=samples,
                scored=scored,
                passed=passed if judged else None,
                reward_sum=sums,
                reward_sq_sum=squares,
                judged=judged,
                alike=tasks,
            )
            for ((environment, samples, scored), (judged, passed), (sums, squares)), tasks in counts.items()
        ]

    def find(self, name: str) -> GroupLine | None:
        """Return the line with this name; None if there is none."""
        place = self._names.code(name)
        return self.line(place) if 0 <= place < len(self) else None

    def minority(self, place: int) -> tuple[int, ...]:
        """The verdicts (1 for passed, 0 for failed) that most other samples of a line contradict: none where all agree,
        both where as many passed as failed.
        """
        passed = self._passed[place]
        failed = self._judged[place] - passed
        if not passed or not failed:
            return ()
        return (1,) if passed < failed else (0,) if failed < passed else (0, 1)

    @property
    def _names(self) -> WordColumn:
        return self._columns.words[self._by]

    def _add(self, start: int, stop: int) -> None:
        self._make_room(start, stop)
        columns = self._columns
        samples, scored, sums, squares = self._samples, self._scored, self._sums, self._squares
        judged, passes, tokens = self._judged, self._passed, self._tokens
        for code, reward, passed, said in zip(
            columns.effective_part(self._by, start, stop),
            columns.effective_part("reward", start, stop),
            columns.effective_part("passed", start, stop),
            columns.effective_part("output_tokens", start, stop),
            strict=True,
        ):
            samples[code] += 1
            tokens[code] += said
            if reward == reward:
                scored[code] += 1
                sums[code] += reward
                squares[code] += reward * reward
            if passed >= 0:
                judged[code] += 1
                passes[code] += passed

    def _make_room(self, start: int, stop: int) -> None:
        known = len(self._first)
        codes = self._names.codes
        for place in range(start, stop):
            if codes[place] == known:
                self._first.append(place)
                known += 1
        more = known - len(self._samples)
        for numbers in (self._samples, self._scored, self._judged, self._passed, self._tokens):
            numbers.extend([0] * more)
        for sums in (self._sums, self._squares):
            sums.extend([0.0] * more)

    def _withdraw(self, place: int) -> None:
        columns = self._columns
        code = self._names.codes[place]
        self._samples[code] -= 1
        self._tokens[code] -= columns.wholes["output_tokens"][place]
        reward, passed = columns.numbers["reward"][place], columns.flags["passed"][place]
        if not isnan(reward):
            self._scored[code] -= 1
            self._sums[code] -= reward
            self._squares[code] -= reward * reward
        if passed >= 0:
            self._judged[code] -= 1
            self._passed[code] -= passed
