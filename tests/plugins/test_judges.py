"""The contract of judges: whatever the entry points name, and one that a stranger wrote."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiohttp import web

import rollouthub
from rollouthub import Public, Score, Secret, Submission, Task, VerifierError
from rollouthub.authoring.judges import NamedJudge, find_judge
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.task_reference import TaskReference
from rollouthub.generation import Model
from rollouthub.messages import assistant, user
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.plugins.entry_points import JUDGES
from rollouthub.score import SubmittedTurn
from rollouthub.store import open_run
from rollouthub.trainers.scorer import open_scorer
from rollouthub.values import Frozen
from tests.local_server import serving
from tests.mcp_servers.foreign import make
from tests.plugins.stranger import names_of, register

STRANGER = "acme/length"
TASK = Task(Public(id="one", prompt="Say it."), Secret(answer="it"))


class Length(Frozen):
    """The longer, the better: written from the protocol alone."""

    roles: ClassVar[tuple[str, ...]] = ()
    reads_turns: ClassVar[bool] = False
    compares: ClassVar[bool] = False

    most: int = 100

    async def score(
        self, task: Task[Any, Any], submissions: Sequence[Submission], models: Mapping[str, Model]
    ) -> Sequence[Score]:
        return [Score(reward=min(len(each.final), self.most) / self.most) for each in submissions]


@pytest.fixture(params=names_of(JUDGES, STRANGER))
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of each judge."""
    if request.param == STRANGER:
        register(tmp_path / "site", monkeypatch, JUDGES, STRANGER, f"{__name__}:Length")
    return request.param


def settings(name: str, url: str) -> dict[str, Any]:
    """What a judge needs to be made at all; `url` is a reward model's."""
    needed: dict[str, dict[str, Any]] = {
        "rubric": {"criteria": [{"name": "right", "question": "Is it right?"}]},
        "reward_model": {"url": url, "model": "tiny"},
        "process_reward_model": {"url": url, "model": "tiny"},
    }
    return needed.get(name, {})


CREDIT = {"credit": 0.5, "words": "well said"}
VERDICTS: Mapping[str, Mapping[str, Any]] = {
    "rubric": {"reasoning": "so it is", "right": True},
    "tournament": {"reasoning": "the first", "winner": "A"},
    "credit": {
        "reasoning": "all of it",
        "team": CREDIT,
        "turns": [{"turn": 0, **CREDIT}],
        "seats": [{"seat": "agent", **CREDIT}],
    },
}
"""Judge → the object that it asks its model for."""


def says(name: str) -> str:
    """A model that answers a judge as it asks."""
    return f"mock/say?text={json.dumps(VERDICTS.get(name, {}))}"


async def rewarding(request: web.Request) -> web.Response:
    """A reward model of vLLM's that finds everything worth 0.25, also each step of it."""
    body = await request.json()
    rows = [[0.25]] * (1 if body.get("task") == "token_classify" else 2)
    return web.json_response({"object": "list", "data": [{"index": 0, "object": "pooling", "data": rows}]})


@asynccontextmanager
async def reward_model() -> AsyncGenerator[str]:
    application = web.Application()
    application.router.add_post("/{route}", rewarding)
    async with serving(application) as url:
        yield url


def played(*answers: str) -> list[Submission]:
    """Submissions of one turn each."""
    return [
        Submission(
            answer=answer,
            transcript=(assistant(answer),),
            turns=(SubmittedTurn(index=0, seat="agent", messages=(user("Say it."),), response=assistant(answer)),),
        )
        for answer in answers
    ]


def models(judge: NamedJudge, model: str) -> dict[str, Model]:
    return {role: MockModel(ModelConfig(name=model)) for role in judge.roles}


async def test_every_submission_gets_a_score(name: str) -> None:
    async with reward_model() as url:
        judge = find_judge(name, settings(name, url), "env.toml")
        count = 3 if judge.compares else 1
        asked = played("it", "something else", "")[:count]
        scores = await judge.score(TASK, asked, models(judge, says(name)))
    assert [type(score) for score in scores] == [Score] * count


async def test_a_model_that_fails_is_the_verifier_s_fault_and_no_zero(name: str) -> None:
    judge = find_judge(name, settings(name, "http://127.0.0.1:9"), "env.toml")
    if not judge.roles and "url" not in settings(name, ""):
        assert await judge.score(TASK, played("it"), {})  # nothing that is asked can fail
        return
    with pytest.raises(VerifierError):
        await judge.score(TASK, played("it", "that"), models(judge, "mock/say?text=no idea"))


async def test_an_environment_is_judged_by_the_judge_that_its_env_toml_names(name: str, tmp_path: Path) -> None:
    async with reward_model() as url:
        judge = find_judge(name, settings(name, url), "env.toml")
        file = make(tmp_path / "notes", verifier={"judge": name, "settings": settings(name, url)}, submit=False)
        roles = {role: says(name) for role in judge.roles}
        run = await rollouthub.aevaluate(
            str(file.parent), "mock/say?text=done", repeats=2, roles=roles, directory=tmp_path / "run", track=()
        )
    assert (run.summary.scored, run.summary.rollouts) == (2, 2)
    with open_run(tmp_path / "run") as reader:
        asked = [call.role for each in reader.rollouts() if each.score is not None for call in each.score.judge_calls]
    # Samples that say the same are a tie, and no model is asked.
    assert asked == ([] if judge.compares else [*judge.roles] * 2)


async def test_stored_answers_are_judged_without_an_episode(tmp_path: Path) -> None:
    file = make(tmp_path / "notes", verifier={"judge": "rubric", "settings": settings("rubric", "")})
    async with open_scorer([str(file.parent)], roles={"judge": says("rubric")}) as scorer:
        score = await scorer.score(TaskReference("me/notes", "test", "one"), "it is written down")
    assert (score.reward, score.passed, score.feedback) == (1.0, True, "so it is")


def test_settings_it_does_not_know_are_refused_with_their_place(name: str) -> None:
    with pytest.raises(ConfigError, match="speeed"):
        find_judge(name, {**settings(name, "http://127.0.0.1:9"), "speeed": 1}, "env.toml")


def test_a_wrong_name_is_met_with_the_right_one(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{name}'"):
        find_judge(f"{name}s", {}, "env.toml")


class Nobody(Frozen):
    """It judges nothing."""


def test_what_is_no_judge_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, monkeypatch, JUDGES, "acme/nobody", f"{__name__}:Nobody")
    with pytest.raises(ConfigError, match=r"'acme/nobody' of distribution .* does not follow .*NamedJudge"):
        find_judge("acme/nobody", {}, "env.toml")
