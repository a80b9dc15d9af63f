"""Judges and simulated users that are told four mebibytes, and whose models say as much, hold up nobody."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from rollouthub import Public, Secret, Submission, Task, VerifierError
from rollouthub.authoring.rewards import Criterion, Judge
from rollouthub.authoring.users import Cue, ModelUser, ScriptedUser, Stage, UserScript, UserSheet
from rollouthub.generation import ModelReply, ModelRequest
from rollouthub.messages import assistant
from tests.loop_holds import SECONDS, SIZE, shortest_hold

MARKS = (" ", "\n", "é", "[", "{", '{"right":', "<think>", "</think>", "```json\n", "###DONE###", "please confirm? ")
TASK = Task(Public(id="one", prompt="What is six times seven?"), Secret(answer="42"))
CRITERIA = [Criterion(name="right", question="Is the answer right?")]
SHEET = UserSheet(persona="Ada", goals=("A hat.",))
SCRIPT = UserScript(
    stages=(Stage(says="A hat.", cues=(Cue(when=r"confirm|proceed", says=("Yes.",), in_requests=True),)),),
    closing=r"anything else",
    fallback="Pardon?",
    patience=2,
)


class Wordy:
    """A model that says one thing."""

    name = "wordy"

    def __init__(self, text: str) -> None:
        self._text = text

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Say it."""
        return ModelReply(message=assistant(self._text), finish_reason="stop")


async def judged(text: str) -> None:
    """By the whole conversation; what the judge says is no verdict, or one."""
    said = (assistant(text), assistant("42"))
    with suppress(VerifierError):
        await Judge(Wordy(text), CRITERIA, sees_conversation=True)(TASK, Submission(transcript=said))


async def answered(text: str) -> None:
    """By a user that a model plays, twice: what was said before is said again."""
    user = ModelUser(Wordy(f"x{text}"), SHEET, "Hello.")
    await user.reply([assistant(text)])
    await user.reply([assistant(text)])
    user.snapshot()


async def met(text: str) -> None:
    """By a user with a script."""
    user = ScriptedUser(SCRIPT)
    await user.reply([assistant(text)])
    await user.reply([assistant(text)])


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("listen", [judged, answered, met])
async def test_four_mebibytes_hold_up_nobody(listen: Callable[[str], Awaitable[None]], mark: str) -> None:
    text = mark * (SIZE // len(mark.encode()))
    assert await shortest_hold(lambda longest: listen(text)) < SECONDS
