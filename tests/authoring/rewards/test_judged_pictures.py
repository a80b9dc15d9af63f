"""Judges, reward models and played users are shown the pictures of what they judge: the exact bytes, over the wire."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Message, ModelReply, ModelRequest, Outcome, Rollout, Text, ToolRequest, aevaluate, picture
from rollouthub.authoring.rewards import Judge
from rollouthub.authoring.rewards.shown_parts import shortened
from rollouthub.authoring.users import ModelUser
from rollouthub.messages import Media, assistant, data_url, digest_of, media_of
from rollouthub.models.mock.mock_server import ModelServer, listening
from rollouthub.rollout import Usage
from rollouthub.store import open_run
from tests.authoring.rewards.judged_pictures import RIGHT, SHEET, TASK, TOOL
from tests.authoring.rewards.test_reward_model import Server, served
from tests.engine.picture_world import png

WORLD = f"{Path(__file__).with_name('judged_pictures.py')}:Judged"
GROUP = f"{Path(__file__).with_name('judged_pictures.py')}:Compared"
CREDIT = {"credit": 0.5, "words": "so"}
VERDICTS = {
    '"right"': {"right": True},
    '"winner"': {"winner": "A"},
    '"turns"': {
        "team": CREDIT,
        "turns": [{"turn": 0, **CREDIT}, {"turn": 1, **CREDIT}],
        "seats": [{"seat": "agent", **CREDIT}],
    },
}


class Asked:
    """Looks and answers as the agent, judges as a judge, and leaves as the user; keeps what these two were shown."""

    name = "openai/asked"

    def __init__(self, refuses: bool = False) -> None:
        self.asked: list[tuple[list[bytes], str]] = []
        """The pictures and the text of each request."""
        self._answers = 0

    async def generate(self, request: ModelRequest) -> ModelReply:
        """The next thing to say."""
        first, last = request.messages[0], request.messages[-1]
        if first.role == "system":
            self.asked.append(([request.media[part.digest] for part in media_of(request.messages)], last.text))
            verdict = next((verdict for key, verdict in VERDICTS.items() if key in last.text), None)
            message = assistant("###DONE###" if verdict is None else json.dumps({"reasoning": "", **verdict}))
        elif len(request.messages) == 1:
            message = assistant("", ToolRequest(id="look-1", name="look", arguments="{}"))
        else:
            self._answers += 1
            message = assistant(f"dark {self._answers}")
        return ModelReply(message=message, finish_reason="stop", usage=Usage(prompt_tokens=3, output_tokens=2))


@asynccontextmanager
async def listening_model() -> AsyncGenerator[tuple[Asked, str]]:
    """The model behind a server, and its address."""
    model = Asked()
    async with listening(ModelServer(model, ("served",), is_mock=False), "127.0.0.1", 0) as port:
        yield model, f"http://127.0.0.1:{port}/v1"


async def played(directory: Path, url: str, world: str = WORLD, **settings: Any) -> tuple[Rollout, set[str]]:
    """The last rollout of a run, and the digests of what the run keeps."""
    roles = (
        {} if settings["set"]["asks"] == "reward_model" else {"asked": {"name": "hosted_vllm/served", "base_url": url}}
    )
    run = await aevaluate(
        world, "hosted_vllm/served", base_url=[url], directory=directory, progress=False, roles=roles, **settings
    )
    run.close()
    with open_run(directory) as reader:
        *_, rollout = reader.rollouts()
    return rollout, {"sha256:" + file.name for file in (directory / "media").iterdir()}


@pytest.mark.parametrize(
    ("settings", "shown", "is_served"),
    [
        ({"asks": "judge"}, [TASK], False),
        ({"asks": "judge", "sees_conversation": True}, [TASK, TOOL], True),
        ({"asks": "credit"}, [TASK, TOOL], False),
        ({"asks": "user"}, [TASK], False),
    ],
    ids=["judge", "judge of a conversation", "credit judge", "user"],
)
async def test_who_judges_or_plays_the_user_sees_the_pictures(
    tmp_path: Path, settings: dict[str, Any], shown: list[bytes], is_served: bool
) -> None:
    async with listening_model() as (model, url):
        rollout, kept = await played(tmp_path / "run", url, set=settings, served=is_served)
    assert rollout.outcome is Outcome.SCORED, rollout.faults
    ((pictures, text),) = model.asked
    assert pictures == shown
    assert kept == {digest_of(TASK), digest_of(TOOL)}
    assert rollout.score is not None
    (call,) = rollout.score.judge_calls or rollout.role_calls
    assert [part.digest for part in media_of(call.messages)] == [digest_of(each) for each in shown]
    if settings["asks"] != "user":
        for number in range(1, len(shown) + 1):
            assert f"[picture {number} " in text


@pytest.mark.parametrize(("sees_conversation", "shown"), [(False, [TASK]), (True, [TASK, TOOL])])
async def test_who_compares_answers_sees_the_pictures_of_both_orders(
    tmp_path: Path, sees_conversation: bool, shown: list[bytes]
) -> None:
    settings = {"asks": "judge", "sees_conversation": sees_conversation}
    async with listening_model() as (model, url):
        rollout, _ = await played(tmp_path / "run", url, GROUP, set=settings, repeats=2)
    assert rollout.outcome is Outcome.SCORED, rollout.faults
    comparisons = [pictures for pictures, text in model.asked if '"winner"' in text]
    assert comparisons == [shown, shown]


def content(server: Server, number: int) -> Any:
    """The content of one message that the reward model was asked with."""
    ((_, body),) = server.asked
    return body["messages"][number]["content"] if "messages" in body else body[f"text_{number + 1}"]["content"]


@pytest.mark.parametrize("route", ["pooling", "classify", "score"])
async def test_a_reward_model_sees_the_pictures(tmp_path: Path, route: str) -> None:
    async with listening_model() as (_, url), served() as server:
        settings = {"asks": "reward_model", "sees_conversation": True, "url": server.url, "route": route}
        rollout, _ = await played(tmp_path / "run", url, set=settings)
        assert rollout.outcome is Outcome.SCORED, rollout.faults
        urls = [
            [part["image_url"]["url"] for part in content(server, number) if part["type"] == "image_url"]
            for number in range(2)
        ]
    assert urls == [[data_url(TASK)], [data_url(TASK), data_url(TOOL)]]


async def test_a_reward_model_that_takes_text_alone_refuses_pictures(tmp_path: Path) -> None:
    async with listening_model() as (_, url), served() as server:
        settings = {"asks": "reward_model", "url": server.url, "route": "get_reward"}
        rollout, _ = await played(tmp_path / "run", url, set=settings)
        assert server.asked == []
    assert rollout.outcome is Outcome.VERIFIER_FAILED
    assert "/get_reward takes text alone, and it would be shown image/png" in rollout.faults[0].message


async def test_material_cannot_pass_a_number_off_as_a_picture_of_its_own() -> None:
    seen, judge = picture(png(4)), Judge(Asked(), [RIGHT])
    (_, asked) = judge.messages(["[picture 2] wins: ", seen, "!"], question=["What? ", seen])
    assert not isinstance(asked.content, str)
    body, name, medium, _ = asked.content
    assert isinstance(body, Text)
    assert isinstance(name, Text)
    assert medium == seen
    assert body.text.count(name.text) == 2, "one picture has one number, wherever it is shown"
    assert f"[picture 2] wins: {name.text}!" in body.text


async def test_a_cut_text_keeps_its_pictures() -> None:
    first, second = picture(png(1)), picture(png(2))
    parts = shortened(["a" * 50, first, "b" * 100, second, "c" * 50], 20)
    assert parts == ("a" * 10 + "\n[… 180 characters left out …]\n", first, second, "c" * 10)
    assert shortened("short", 20) == ("short",)


async def test_a_played_user_sees_the_agents_pictures_and_remembers_them() -> None:
    shown = Message(role="assistant", content=(Text(text="Is it this? ###DONE###"), picture(TOOL)))
    opening = Message(role="user", content=(Text(text="What is it?"), picture(TASK)))
    first, model = ModelUser(Leaver(), SHEET, opening), Leaver()
    await first.reply([shown])
    second = ModelUser(model, SHEET, opening)
    second.restore(json.loads(json.dumps(first.snapshot())))
    await second.reply([assistant("Well?")])
    ((request,), said) = model.asked, [Text(text="Is it this? "), Media.of(TOOL)]
    assert [part.read() for part in media_of(request.messages)] == [TASK, TOOL]
    assert list(request.messages[3].content) == said


class Leaver:
    """A user's model that says one thing; keeps what it was asked."""

    name = "leaver"

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Something to say."""
        self.asked.append(request)
        return ModelReply(message=assistant("Hm?"))
