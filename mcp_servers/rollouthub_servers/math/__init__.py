"""`math`: any data set of problems with answers, checked by math-verify.

`deepscaler` and the benchmarks of `rollouthub_servers.presets` are configurations of it. All code is in this package,
so that the environment's digest covers the checker.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

from pydantic import Field

from rollouthub import (
    BadRow,
    Environment,
    EnvironmentConfig,
    Limits,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
)
from rollouthub.authoring.rows import Row, illustrated, pictures_of
from rollouthub.messages import assistant
from rollouthub.plugins.preset import Preset
from rollouthub_servers.math.answer import find_answer
from rollouthub_servers.math.checker import CPU_SECONDS, check
from rollouthub_servers.math.reference import reference_answers
from rollouthub_servers.table_config import TableConfig

__all__ = [
    "MathConfig",
    "MathProblems",
    "deepscaler",
    "deepscaler_8k",
    "deepscaler_16k",
    "deepscaler_24k",
]

PROBLEM_COLUMNS = ("problem", "question", "prompt")
ANSWER_COLUMNS = ("answer", "final_answer", "solution")
INSTRUCTION = r"Let's think step by step and output the final answer within \boxed{}."


class MathConfig(TableConfig):
    """The data set of problems, and the names of its columns."""

    context: str | None = None
    """Column of a text that stands above the problem; None takes none."""
    problem: str | None = None
    """Column of the problem; by default the first of problem, question, prompt."""
    answer: str | None = None
    r"""Column of the answer; None takes answer, final_answer or solution. Of a solution, what follows `####` or stands
    in the last `\boxed{}` counts."""
    images: str | None = None
    """Column of pictures that belong to the problem; None takes images or image where a row has one (and file_name in
    a folder of pictures), empty takes none. `<image>` in the problem says where each stands; else all come first."""
    source_column: str | None = None
    """Column with each row's origin, by which trainers choose rewards in mixed data sets."""
    instruction: str = INSTRUCTION
    """Text after every problem; empty for none."""
    response_tokens: int | None = Field(default=None, ge=1)
    """Suggested limit of one response in tokens; None suggests none."""
    opens_thought: bool = False
    """Whether the policy's chat template opens the thought in the prompt, as that of DeepSeek-R1-Distill does: a
    response without `</think>` was then cut in its thought and earns nothing, whatever numbers stand in it."""
    check_seconds: float = Field(default=CPU_SECONDS, gt=0)
    """CPU seconds for checking an answer; an answer that takes more is wrong."""


class MathProblems(Environment[MathConfig]):
    """Problems with a checkable answer, from any data set."""

    default_agent = "single_turn"
    scores_transcripts = True

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """The splits of the data set."""
        assert isinstance(config, MathConfig)
        return config.rows().splits()

    @classmethod
    def tasks(cls, config: MathConfig, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """One task per row, in the order of the file."""
        return config.tasks(split, partial(_task, config))

    @classmethod
    def limits(cls, config: MathConfig) -> Limits:
        """The configured limit of response tokens."""
        return Limits(max_response_tokens=config.response_tokens)

    def reference(self) -> Sequence[Message]:
        """The first reference answer, in a `\\boxed{}`."""
        thought = "</think>\n\n" if self.config.opens_thought else ""
        return (assistant(rf"{thought}The answer is \boxed{{{self._references[0]}}}."),)

    @property
    def _references(self) -> list[str]:
        """The reference answers, each of which is right."""
        return cast(list[str], self.task.secret.answer)

    async def verify(self, submission: Submission) -> Score:
        """Compare the answer in the submission or final message with the reference answers."""
        is_cut = self.config.opens_thought and _is_thought(submission)
        answer = "" if is_cut else find_answer(submission.final)
        if not answer:
            missing = "the response ends in its thought" if is_cut else "no answer was found"
            return Score(reward=0.0, passed=False, metrics={"answered": 0.0}, feedback=missing)
        verdict = await check(self._references, answer, cpu_seconds=self.config.check_seconds)
        metrics = {"answered": 1.0, "too_complex": float(verdict.too_complex)}
        if verdict.correct:
            return Score(reward=1.0, passed=True, metrics=metrics)
        said = f"expected {' or '.join(self._references):.200}, got {answer[:200]}"
        if verdict.too_complex:
            said += f", which takes over {self.config.check_seconds:g} s of CPU to check"
        elif verdict.parsed is None:
            said += ", which is not well-formed"
        return Score(reward=0.0, passed=False, metrics=metrics, feedback=said)


def _is_thought(submission: Submission) -> bool:
    """Whether the response is a thought that was opened in the prompt and never closed."""
    if submission.answer is not None:
        return False
    spoken = next((each for each in reversed(submission.transcript) if each.role == "assistant"), None)
    return spoken is not None and spoken.reasoning is None and "</think>" not in spoken.text


def _task(config: MathConfig, task_id: str, row: Row) -> Task[Public, Secret]:
    asked, problem = row.named(config.problem, PROBLEM_COLUMNS, "problem")
    if not isinstance(problem, str) or not problem.strip():
        raise row.error(f"the problem must be text, this is {problem!r:.100}")
    column, answer = row.named(config.answer, ANSWER_COLUMNS, "answer", taken=(asked,))
    references = reference_answers(answer, is_solution=column == "solution")
    if not references:
        raise row.error(f"column {column!r} holds no answer: {answer!r:.100}")
    if config.context is not None:
        problem = f"{str(row.column(config.context, 'context')).strip()}\n{problem.strip()}"
    prompt = f"{problem.strip()}\n\n{config.instruction}" if config.instruction else problem.strip()
    source = None if config.source_column is None else str(row.column(config.source_column, "source_column"))
    pictures = () if config.images == "" else pictures_of(row, config.images)
    shown = illustrated(row, prompt, pictures)
    return Task(Public(id=task_id, prompt=shown, source=source), Secret(answer=list(references)))


_DEEPSCALER = "hf:agentica-org/DeepScaleR-Preview-Dataset@b6ae8c60f5c1f2b594e2140b91c49c9ad0949e29"
"""The training set of the recipe. A folder of its files has the splits aime, amc, math, minerva and train."""

deepscaler_8k = Preset(
    MathProblems,
    {"data": _DEEPSCALER, "response_tokens": 8_192},
    "DeepScaleR's competition mathematics, first stage: responses up to 8K tokens.",
)
deepscaler_16k = Preset(
    MathProblems,
    {"data": _DEEPSCALER, "response_tokens": 16_384},
    "DeepScaleR's competition mathematics, second stage: responses up to 16K tokens.",
)
deepscaler_24k = Preset(
    MathProblems,
    {"data": _DEEPSCALER, "response_tokens": 24_576},
    "DeepScaleR's competition mathematics, third stage: responses up to 24K tokens.",
)
deepscaler = Preset(
    MathProblems,
    {"data": _DEEPSCALER, "response_tokens": 24_576},
    "DeepScaleR's competition mathematics: AIME, AMC, MATH, Minerva; responses up to 24K tokens.",
)
