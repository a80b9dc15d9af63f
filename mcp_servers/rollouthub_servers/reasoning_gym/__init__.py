"""`reasoning_gym`: each generator of the reasoning-gym package as a split, scored by the generator's own scorer."""

import json
from collections.abc import Iterator, Sequence

from pydantic import Field, JsonValue

from rollouthub import (
    BadRow,
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    VerifierError,
)
from rollouthub.errors import ConfigError, DataError, TaskError
from rollouthub.messages import assistant
from rollouthub_servers.reasoning_gym.library import ask, ask_in_thread

__all__ = ["Puzzle", "ReasoningGym", "ReasoningGymConfig"]

FIRST = "basic_arithmetic"
"""The default split."""
INSTRUCTION = "Think step by step. Then give the answer alone, in the form asked for, between <answer> and </answer>."
BATCH = 16
"""Most tasks requested from the worker at a time; the first requests are smaller."""

_OPENING, _CLOSING = "<answer>", "</answer>"


class ReasoningGymConfig(EnvironmentConfig):
    """Number and kind of puzzles."""

    size: int = Field(default=500, ge=1)
    """Number of tasks in each split; they are generated lazily."""
    options: dict[str, JsonValue] = {}
    """Settings of the generator itself, such as `--set options='{"min_terms": 3}'`; by default its own."""
    instruction: str = INSTRUCTION
    """Text after every question; empty for none."""
    check_seconds: float = Field(default=10.0, gt=0, le=60)
    """CPU seconds for scoring an answer; an answer that takes more is wrong."""


class Puzzle(Secret):
    """What regenerates the puzzle for its scorer."""

    recipe: str
    index: int


class ReasoningGym(Environment[ReasoningGymConfig]):
    """Over a hundred puzzle generators (reasoning-gym), each a split."""

    scores_transcripts = True

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """The names of the generators."""
        names: list[str] = ask({"do": "splits"})["splits"]
        return tuple(sorted(names, key=lambda name: (name != FIRST, name)))

    @classmethod
    def tasks(cls, config: ReasoningGymConfig, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """Generate the puzzles lazily; the same seed gives the same puzzles in every process."""
        # Some generators hand the seed to numpy, which takes 32 bits.
        given = {"generator": split, "seed": seed % (1 << 31), "size": config.size, "options": config.options}
        recipe = json.dumps(given, sort_keys=True)
        index, count, is_done = 0, 1, False
        while not is_done:
            try:
                reply = ask({"do": "tasks", "recipe": recipe, "start": index, "count": count})
            except ConfigError as error:
                raise ConfigError(f"generator {split!r} cannot be used: {error}") from error
            for made in reply["tasks"]:
                if "bad" in made:
                    yield BadRow(DataError(f"puzzle {index} cannot be made: {made['bad']}", f"reasoning_gym:{split}"))
                else:
                    asked = f"{made['question'].strip()}\n\n{config.instruction}".strip()
                    public = Public(id=f"{split}/{index}", prompt=asked, source=split)
                    yield Task(public, Puzzle(answer=made["reference"], recipe=recipe, index=index))
                index += 1
            is_done, count = reply["done"], min(2 * count, BATCH)

    def reference(self) -> Sequence[Message]:
        """The generator's own answer; empty if it gives none."""
        answer = self.task.secret.answer
        return () if answer is None else (assistant(f"<answer>{answer}</answer>"),)

    async def verify(self, submission: Submission) -> Score:
        """Score the answer with the generator's own scorer, with partial credit; a score of 1 is passed."""
        answer = find_answer(submission)
        if not answer:
            return Score(reward=0.0, passed=False, metrics={"answered": 0.0}, feedback="no answer was found")
        puzzle, seconds = self.task.secret, self.config.check_seconds
        assert isinstance(puzzle, Puzzle)
        request = {"recipe": puzzle.recipe, "index": puzzle.index, "answer": answer, "cpu_seconds": seconds}
        try:
            reply = await ask_in_thread({"do": "score", **request})
        except (TaskError, ConfigError) as error:
            raise VerifierError(f"the answer could not be scored: {error}") from error
        if "broken" in reply:
            raise VerifierError(f"generator {self.task.public.source!r}: {reply['broken']}", retryable=False)
        reward = reply.get("score", 0.0)
        feedback = None if reward >= 1 else f"expected {self.task.secret.answer!s:.200}, got {answer[:200]}"
        if "raised" in reply:
            feedback = f"{feedback}, which its scorer cannot read ({reply['raised']})"
        elif "died" in reply:
            feedback = f"{feedback}, which takes over {seconds:g} s of CPU or too much memory to score"
        return Score(reward=reward, passed=reward >= 1, metrics={"answered": 1.0}, feedback=feedback)


def find_answer(submission: Submission) -> str | None:
    """The text in the last `<answer>` tag; without one, all of what was given to `submit`. None if there is none.

    This is the library's own convention: a message without the tag gives no answer.
    """
    text = submission.final.rpartition("</think>")[2]
    opening = text.rfind(_OPENING, 0, max(0, text.rfind(_CLOSING)))
    if opening >= 0:
        return text[opening + len(_OPENING) : text.find(_CLOSING, opening)].strip() or None
    return (text.strip() or None) if submission.answer is not None else None
