"""`Judge`: a model that scores an answer by yes-or-no questions, grades on a scale, or a weighted rubric of both."""

import re
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import anyio

from rollouthub.authoring.rewards.composite import composite
from rollouthub.authoring.rewards.judge_verdict import Criterion, JudgeVerdict, form_of, read_verdict, verdict_schema
from rollouthub.authoring.rewards.reward_function import finite
from rollouthub.authoring.rewards.shown_parts import Shown, answer_of, question_of, reference_of
from rollouthub.authoring.rewards.verdict_question import Material, VerdictQuestion
from rollouthub.errors import VerifierError
from rollouthub.generation import Model, Sampling
from rollouthub.messages import Message
from rollouthub.score import Score, Submission
from rollouthub.task import Task

TEMPLATE = """\
The task that was given:
{question}

A reference, known to be right; the candidate has not seen it:
{reference}

What the candidate handed in:
{answer}

Judge it by these criteria:
{criteria}
"""
_SLOT = re.compile(r"\{(question|reference|answer|criteria)\}")

_DUTY = """\
You are an impartial judge. You are shown a task and what a candidate handed in, and judge it by the criteria you are \
given, and by nothing else."""


class Judge:
    """Asks a model for a verdict; itself a reward function, alone or in a `WeightedReward`.

        judge = Judge(self.models["judge"], [Criterion(name="right", question="Is the answer right?")])
        return await judge(self.task, submission)

    The score is the weighted sum of the criteria's grades, each from 0 to 1. An answer that cannot be parsed is sent
    back with the reason, up to `retries` times; after that the verifier fails, and the score is never 0 for it.

    Raises:
        ValueError: there are no criteria, two of one name, all of weight 0, an even number of votes, or a template
            without the answer.
    """

    def __init__(
        self,
        model: Model,
        criteria: Sequence[Criterion],
        *,
        pass_at: float | None = None,
        votes: int = 1,
        retries: int = 2,
        sees_conversation: bool = False,
        template: str = TEMPLATE,
        sampling: Sampling | None = None,
        timeout_seconds: float = 120.0,
        most_characters: int = 100_000,
    ) -> None:
        """Set the judge's criteria and limits.

        `pass_at` is the reward that passes; without it, only a single yes-or-no criterion decides on passing. Of
        several `votes` (an odd number) the median counts, which for yes or no is the majority. `sampling` defaults to
        temperature 0, or to 0.7 and a seed for each vote if there are several. `sees_conversation` shows the whole
        transcript instead of the final answer. Text longer than `most_characters` loses its middle, so that no answer
        is too long to judge.
        """
        check_rubric(criteria, votes, template)
        if pass_at is not None:
            finite(pass_at, "pass_at")
        self._question = VerdictQuestion(model, retries, timeout_seconds)
        self._criteria, self._pass_at, self._votes = tuple(criteria), pass_at, votes
        self._sees_conversation, self._template = sees_conversation, template
        self._sampling = sampling or Sampling(temperature=0.0 if votes == 1 else 0.7)
        self._has_own_seeds = votes > 1 and self._sampling.seed is None
        self._most = most_characters

    async def __call__(self, task: Task[Any, Any], submission: Submission) -> Score:
        """Judge a submission: the task's prompt is the question, the secret's `answer` the reference.

        Raises:
            VerifierError: the model failed, or gave no valid verdict.
        """
        return await self.judge(
            answer_of(submission, sees_conversation=self._sees_conversation),
            question=question_of(task.public),
            reference=reference_of(task),
        )

    async def judge(self, answer: Shown, *, question: Shown | None = None, reference: str | None = None) -> Score:
        """Judge an answer, optionally with its question and a reference; media in them are shown to the judge.

        Raises:
            VerifierError: the model failed, or gave no valid verdict.
        """
        messages = self.messages(answer, question=question, reference=reference)
        verdicts: list[JudgeVerdict | VerifierError] = [VerifierError("not asked")] * self._votes

        async def vote(place: int) -> None:
            try:
                verdicts[place] = await self._ask(messages, place)
            except VerifierError as error:
                verdicts[place] = error

        async with anyio.create_task_group() as voters:
            for place in range(self._votes):
                voters.start_soon(vote, place)
        found: list[JudgeVerdict] = []
        for verdict in verdicts:
            if isinstance(verdict, VerifierError):
                raise verdict
            found.append(verdict)
        return self._score(found)

    def messages(self, answer: Shown, *, question: Shown | None = None, reference: str | None = None) -> list[Message]:
        """The messages to the judge; the material stands between lines with a mark that no material can contain."""
        material: dict[str, Shown | None] = {"question": question, "reference": reference, "answer": answer}
        pieces = {slot: shown for slot, shown in material.items() if shown is not None}
        marked = Material.of(pieces, self._template, self._most)
        blocks = dict(marked.blocks)
        blocks["criteria"] = "\n".join(f"- {each.name} ({each.form}): {each.question}" for each in self._criteria)
        # In one pass: what a slot is filled with is never read as a template itself.
        paragraphs = [part for part in self._template.split("\n\n") if not _names_empty_slot(part, blocks)]
        body = _SLOT.sub(lambda slot: blocks[slot[1]], "\n\n".join(paragraphs)).strip()
        return marked.asked(_DUTY, body, form_of(self._criteria))

    async def _ask(self, messages: Sequence[Message], place: int) -> JudgeVerdict:
        """Ask for one vote.

        Raises:
            VerifierError: the model failed, or gave no valid verdict.
        """
        sampling = self._sampling.model_copy(update={"seed": place}) if self._has_own_seeds else self._sampling
        form = form_of(self._criteria)
        schema = verdict_schema({each.name: each.grade_schema for each in self._criteria})
        read = partial(read_verdict, criteria=self._criteria)
        return await self._question.ask(messages, read, form, sampling, schema)

    def _score(self, verdicts: Sequence[JudgeVerdict]) -> Score:
        grades = {each.name: float(median(v.grades[each.name] for v in verdicts)) for each in self._criteria}
        only = self._criteria[0] if len(self._criteria) == 1 and self._criteria[0].highest is None else None
        agreement = {
            f"agreement.{name}": sum(v.grades[name] == grade for v in verdicts) / len(verdicts)
            for name, grade in grades.items()
            if len(verdicts) > 1
        }
        return composite(
            grades,
            {each.name: each.weight for each in self._criteria},
            pass_at=self._pass_at,
            passed=bool(grades[only.name]) if only is not None and self._pass_at is None else None,
            feedback="\n".join(verdict.reasoning for verdict in verdicts if verdict.reasoning) or None,
            metrics=agreement,
        )


def check_rubric(criteria: Sequence[Criterion], votes: int, template: str) -> None:
    """Check the settings of a judge.

    Raises:
        ValueError: there are no criteria, two of one name, all of weight 0, an even number of votes, or a template
            without the answer.
    """
    if len({each.name for each in criteria}) != len(criteria):
        raise ValueError(f"two criteria of one name: {', '.join(each.name for each in criteria)}")
    if not any(each.weight for each in criteria):
        raise ValueError("a judge needs at least one criterion with a weight other than 0")
    if votes < 1 or votes % 2 == 0:
        raise ValueError(f"votes={votes}: an odd number has a majority and a median of its own")
    if "{answer}" not in template or "{criteria}" not in template:
        raise ValueError("the judge's template lacks {answer} or {criteria}: it would judge nothing, or by nothing")


def _names_empty_slot(paragraph: str, blocks: dict[str, str]) -> bool:
    return any(slot[1] not in blocks for slot in _SLOT.finditer(paragraph))
