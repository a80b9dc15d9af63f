"""Simulated users: one that plays a script, one that a model plays."""

import json
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import (
    BadRow,
    Deadlines,
    Environment,
    EnvironmentConfig,
    Message,
    ModelError,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    ToolRequest,
)
from rollouthub.authoring.users import Cue, ModelUser, ScriptedUser, SimulatedUser, Stage, UserScript, UserSheet
from rollouthub.generation import Model, ModelReply, ModelRequest
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import BROKEN
from rollouthub.messages import assistant, system, user
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.protocols import Episode

SCRIPT = UserScript(
    stages=(
        Stage(says="I want a refund.", cues=(Cue(when=r"confirm|proceed", says=("Yes.",), in_requests=True),)),
        Stage(says="And a new hat.", cues=(Cue(when=r"\bcolou?r\b", says=("Red.",), in_requests=True),)),
    ),
    closing=r"anything else",
    cues=(
        Cue(when=r"e-?mail", says=("It's a@x.org.", "Sorry, it's b@x.org."), in_requests=True),
        Cue(when=r"cannot", says=("Really not?",), once=True),
    ),
    fallback="Pardon?",
    patience=2,
    most_replies=30,
)
SHEET = UserSheet(
    persona="Ada, in a hurry",
    goals=("A refund for order 7.", "A new hat."),
    facts={"e-mail": "ada@x.org"},
    rules=("Get the e-mail address wrong at first.",),
)


async def talk(who: SimulatedUser, *words: str) -> list[str | None]:
    """What a user answers to one message after the other."""
    answers: list[str | None] = []
    for text in words:
        said = await who.reply([assistant(text)])
        answers.append(None if said is None else "\n".join(message.text for message in said))
    return answers


# --- scripted -----------------------------------------------------------------------------------------------------


async def test_a_scripted_user_answers_what_is_asked_then_goes_on_then_leaves() -> None:
    who = ScriptedUser(SCRIPT)
    words = ("Your e-mail, please?", "Shall I proceed?", "Done. Anything else?", "Which colour?", "Anything else?")
    assert await talk(who, *words) == ["It's a@x.org.", "Yes.", "And a new hat.", "Red.", None]
    assert who.is_done
    assert await talk(who, "Hello?") == [None]


async def test_what_was_got_wrong_at_first_is_put_right_when_asked_again() -> None:
    asked = ["Your e-mail?"] * 3
    assert await talk(ScriptedUser(SCRIPT), *asked) == ["It's a@x.org.", *["Sorry, it's b@x.org."] * 2]


async def test_several_questions_get_one_answer() -> None:
    assert await talk(ScriptedUser(SCRIPT), "Your e-mail? And shall I proceed?") == ["Yes. It's a@x.org."]


async def test_a_cue_in_a_statement_is_no_question() -> None:
    assert await talk(ScriptedUser(SCRIPT), "An e-mail is on its way.") == ["Pardon?"]


async def test_a_line_said_once_is_not_said_again_and_confusion_ends_in_leaving() -> None:
    answers = await talk(ScriptedUser(SCRIPT), "I cannot.", "I cannot.", "I cannot.")
    assert answers == ["Really not?", "Pardon?", None]


async def test_a_scripted_user_leaves_after_so_many_replies() -> None:
    who = ScriptedUser(SCRIPT.model_copy(update={"most_replies": 2}))
    assert await talk(who, *["Your e-mail?"] * 3) == ["It's a@x.org.", "Sorry, it's b@x.org.", None]


async def test_thoughts_and_tool_calls_are_not_for_the_user() -> None:
    call = ToolRequest(id="1", name="anything else", arguments='{"e-mail": "?"}')
    message = assistant("", call).model_copy(update={"reasoning": "Ask for the e-mail?"})
    assert await ScriptedUser(SCRIPT).reply([message]) == [user("Pardon?")]


@pytest.mark.parametrize("said", [1, 2, 3])
async def test_a_scripted_user_goes_on_from_a_snapshot(said: int) -> None:
    words = ["Your e-mail?", "Your e-mail?", "Anything else?", "Which colour?", "Anything else?"]
    first, second = ScriptedUser(SCRIPT), ScriptedUser(SCRIPT)
    answers = await talk(first, *words[:said])
    second.restore(json.loads(json.dumps(first.snapshot())))
    assert answers + await talk(second, *words[said:]) == await talk(ScriptedUser(SCRIPT), *words)


@pytest.mark.parametrize("unit", ["a.a", "? ", "please ", "e-mail?", "…\n", "anything els "])
async def test_a_flood_of_words_is_answered_in_no_time(unit: str) -> None:
    who = ScriptedUser(SCRIPT)
    started = time.process_time()
    await talk(who, unit * 50_000)
    assert time.process_time() - started < 2.0


# --- played by a model --------------------------------------------------------------------------------------------


class Actor:
    """A model that says one line after the other, and keeps what it was asked."""

    name = "actor"

    def __init__(self, *lines: str | ModelError) -> None:
        self.asked: list[ModelRequest] = []
        self._lines = lines

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        line = self._lines[len(self.asked) - 1]
        if isinstance(line, ModelError):
            raise line
        return ModelReply(assistant(line))


async def test_the_model_sees_the_conversation_from_the_users_side() -> None:
    actor = Actor("Ada here.", "###DONE###")
    who = ModelUser(actor, SHEET, "Hi, a refund.")
    assert await talk(who, "Who are you?", "Bye.") == ["Ada here.", None]
    assert who.is_done
    told, *spoken = actor.asked[1].messages
    assert told.role == "system"
    for part in ("Ada, in a hurry", "1. A refund for order 7.\n2. A new hat.", "- e-mail: ada@x.org", "wrong at first"):
        assert part in told.text
    assert spoken[1:] == [assistant("Hi, a refund."), user("Who are you?"), assistant("Ada here."), user("Bye.")]
    assert spoken[0].role == "user"
    assert [request.sampling.temperature for request in actor.asked] == [0.0, 0.0]


async def test_words_with_the_mark_of_the_end_are_the_end() -> None:
    assert await talk(ModelUser(Actor("Thanks! ###DONE###"), SHEET, "Hi"), "Done.") == [None]


async def test_an_agent_that_writes_the_mark_of_the_end_is_not_heard_saying_it() -> None:
    actor = Actor("Hm?")
    await talk(ModelUser(actor, SHEET, "Hi"), "Repeat: ###DONE###")
    assert actor.asked[0].messages[-1] == user("Repeat: ")


async def test_what_the_agent_thinks_and_calls_stays_with_the_agent() -> None:
    actor = Actor("Hm?")
    call = ToolRequest(id="1", name="peek", arguments="{}")
    message = assistant("Hello.", call).model_copy(update={"reasoning": "a secret plan"})
    await ModelUser(actor, SHEET, "Hi").reply([message])
    assert actor.asked[0].messages[-1] == user("Hello.")


async def test_what_a_model_thinks_before_it_speaks_is_not_said() -> None:
    assert await talk(ModelUser(Actor("<think>my sheet says…</think>\nHello."), SHEET, "Hi"), "?") == ["Hello."]


async def test_a_played_user_leaves_after_so_many_replies() -> None:
    who = ModelUser(Actor("a", "b", "c"), SHEET, "Hi", most_replies=2)
    assert await talk(who, "1", "2", "3") == ["a", "b", None]


async def test_a_user_who_says_nothing_is_the_models_fault() -> None:
    with pytest.raises(ModelError, match="plays the user, and said nothing"):
        await talk(ModelUser(Actor(" "), SHEET, "Hi"), "?")


async def test_a_failed_call_is_not_remembered() -> None:
    actor = Actor(ModelError("away"), "Hello.")
    who = ModelUser(actor, SHEET, "Hi")
    with pytest.raises(ModelError, match="away"):
        await talk(who, "One?")
    await talk(who, "One?")
    assert actor.asked[0].messages == actor.asked[1].messages


async def test_a_played_user_goes_on_from_a_snapshot() -> None:
    first, actor = ModelUser(Actor("a"), SHEET, "Hi"), Actor("b")
    await talk(first, "1")
    second = ModelUser(actor, SHEET, "Hi")
    second.restore(json.loads(json.dumps(first.snapshot())))
    await talk(second, "2")
    assert [message.text for message in actor.asked[0].messages[2:]] == ["Hi", "1", "a", "2"]


async def test_who_talks_over_a_played_user_is_answered_one_after_the_other() -> None:
    actor = Actor("a", "b")
    who = ModelUser(actor, SHEET, "Hi")
    async with anyio.create_task_group() as agents:
        agents.start_soon(talk, who, "1")
        agents.start_soon(talk, who, "2")
    assert [message.text for message in actor.asked[1].messages[3:]] == ["1", "a", "2"]


# --- in an environment --------------------------------------------------------------------------------------------


class Chat(Environment[EnvironmentConfig]):
    """A conversation with a model's user."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="one", prompt="Hi"), Secret())

    @classmethod
    def roles(cls, config: Any) -> tuple[str, ...]:
        return ("user",)

    async def setup(self) -> None:
        self.user = ModelUser(self.models["user"], SHEET, "Hi")

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        return await self.user.reply(messages)

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=float(self.user.is_done))


@asynccontextmanager
async def chat(model: Model) -> AsyncGenerator[Episode]:
    host = InProcessHost("chat", Chat, models={"user": model})
    with anyio.fail_after(5):
        async for card in host.tasks("test", 0):
            assert not isinstance(card, BadRow)
            async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
                yield episode


def mock(name: str) -> MockModel:
    return MockModel(ModelConfig(name=f"mock/{name}", price_prompt=1.0, price_output=1.0))


async def test_every_call_of_the_users_model_is_recorded_with_its_cost(tmp_path: Path) -> None:
    script = tmp_path / "user.json"
    # The opening is the first thing the user's model is shown to have said.
    script.write_text(json.dumps([{}, {"content": "A refund."}, {"content": "###DONE###"}]))
    async with chat(mock(f"script?file={script}")) as episode:
        seat = episode.seats["agent"]
        assert await seat.reply([assistant("What?")]) == [user("A refund.")]
        assert await seat.reply([assistant("Done.")]) is None
        score = await episode.verify(Submission())
        assert score.reward == 1.0
        assert not score.judge_calls
        assert [call.role for call in episode.role_calls] == ["user", "user"]
        assert all(call.cost and call.messages[0] == system(call.messages[0].text) for call in episode.role_calls)


async def test_a_failed_users_model_is_a_fault_of_the_model_that_can_be_tried_again() -> None:
    async with chat(mock("say?fail=1")) as episode:
        with pytest.raises(ModelError) as caught:
            await episode.seats["agent"].reply([assistant("What?")])
        assert caught.value.retryable
        assert [call.error for call in episode.role_calls] == ["simulated failure"]


async def test_a_failed_users_model_behind_the_tool_reply_is_the_same_fault_and_tells_the_agent_nothing() -> None:
    async with chat(mock("say?fail=1")) as episode:
        result = await episode.seats["agent"].call_tool("reply", {"text": "What?"})
        assert BROKEN in result.model_dump_json()
        (fault,) = episode.faults
        assert (fault.boundary, fault.phase, fault.retryable, fault.status) == ("model", "agent", True, 500)
