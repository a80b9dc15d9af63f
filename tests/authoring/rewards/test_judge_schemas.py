"""Judges on the openai lane: the verdict's form is sent as a strict JSON schema, on both APIs."""

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from rollouthub.authoring.rewards import CreditJudge, Criterion, Judge, PairwiseJudge
from rollouthub.generation import Model
from rollouthub.messages import assistant, user
from rollouthub.models.config import Api, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_lane
from rollouthub.score import Submission, SubmittedTurn
from rollouthub.task import Public, Secret, Task
from tests.models.openai_server import MODEL, OpenAIServer

CRITERIA = [Criterion(name="right", question="?"), Criterion(name="brief", question="?", lowest=1, highest=5)]
TASK = Task(Public(id="t", prompt="Say something."), Secret())
TURNS = (SubmittedTurn(index=0, seat="left", messages=(user("go"),), response=assistant("yes")),)
CREDIT = {"credit": 0.5, "words": "good"}
on_both_apis = pytest.mark.parametrize("api", ["chat", "responses"])


def objects(schema: object) -> Iterator[dict[str, Any]]:
    """Every schema of an object within a schema."""
    if isinstance(schema, list):
        for each in cast(list[object], schema):
            yield from objects(each)
    elif isinstance(schema, dict):
        fields = cast(dict[str, Any], schema)
        if fields.get("type") == "object":
            yield fields
        for each in fields.values():
            yield from objects(each)


async def asked(api: Api, verdict: dict[str, Any], judge: Any) -> dict[str, Any]:
    """The schema that a judge's call is sent with; the verdict is what the model answers."""
    server = OpenAIServer(lambda body: json.dumps(verdict))
    config = ModelConfig(name=f"openai/{MODEL}", lane="openai", api=api)
    async with server.serve() as url, open_lane(config, url, Credentials({"OPENAI_API_KEY": "hush-hush"})) as model:
        await judge(model)
    (_, body), *_ = server.asked
    form = body["text"]["format"] if api == "responses" else body["response_format"]["json_schema"]
    assert form["strict"] is True
    for each in objects(form["schema"]):
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
    return form["schema"]


@on_both_apis
async def test_a_rubric_is_a_schema(api: Api) -> None:
    async def judge(model: Model) -> None:
        score = await Judge(model, CRITERIA)(TASK, Submission(answer="yes"))
        assert {name: part.value for name, part in score.components.items()} == {"right": 1.0, "brief": 0.75}

    schema = await asked(api, {"reasoning": "so", "right": True, "brief": 4}, judge)
    assert schema["properties"] == {
        "reasoning": {"type": "string"},
        "right": {"type": "boolean"},
        "brief": {"type": "integer", "minimum": 1.0, "maximum": 5.0},
    }


@on_both_apis
async def test_a_comparison_is_a_schema(api: Api) -> None:
    async def judge(model: Model) -> None:
        assert (await PairwiseJudge(model).compare("a", "b")).share == 0.5

    schema = await asked(api, {"reasoning": "", "winner": "tie"}, judge)
    assert schema["properties"]["winner"] == {"type": "string", "enum": ["A", "B", "tie"]}


@on_both_apis
async def test_credit_is_a_schema_of_the_turns_and_seats(api: Api) -> None:
    async def judge(model: Model) -> None:
        score = await CreditJudge(model)(TASK, Submission(turns=TURNS))
        assert (score.turn_rewards, score.seat_rewards) == ({0: 0.5}, {"left": 0.5})

    verdict = {"reasoning": "", "team": CREDIT, "turns": [{"turn": 0, **CREDIT}], "seats": [{"seat": "left", **CREDIT}]}
    schema = await asked(api, verdict, judge)
    assert schema["properties"]["turns"]["items"]["properties"]["turn"] == {"type": "integer", "enum": [0]}
    assert schema["properties"]["seats"]["items"]["properties"]["seat"] == {"type": "string", "enum": ["left"]}
