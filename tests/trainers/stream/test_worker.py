"""A worker that plays what it is asked for: records to the letter, whoever waits and whatever breaks."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import rollouthub
from rollouthub import ModelReply, ModelRequest, Outcome, Rollout, SupplyError
from rollouthub.engine.run_request import build_request
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export import Refusal, why_refused
from rollouthub.export.not_trainable import Need
from rollouthub.messages import assistant
from rollouthub.models.credentials import Credentials
from rollouthub.store import open_run
from rollouthub.trainers.stream import RolloutWorker, SampleRequest, blocking_worker, rollout_worker

from .conftest import WORLD, supplied

NOBODY = Credentials({})
NEEDS: tuple[Need, ...] = ("text", "logprobs")


@asynccontextmanager
async def working(folder: Path, **more: Any) -> AsyncGenerator[RolloutWorker]:
    """A worker in the small world, for a minute at most; `world` are the world's own settings."""
    chosen: dict[str, Any] = {
        "environments": (str(WORLD),),
        "model": "mock/say?text=done",
        "seed": 1,
        "set": more.pop("world", {}),
        "directory": folder / "run",
        "credentials": NOBODY,
        "retries": {"infrastructure": 0},
    }
    with anyio.fail_after(60):
        async with rollout_worker(**(chosen | more)) as worker:
            yield worker


class Engine:
    """A trainer's own model: says one thing, when it is let."""

    name = "trainer/engine"

    def __init__(self, text: str = "42", *, is_open: bool = True) -> None:
        self.text, self.asked = text, list[ModelRequest]()
        self.begun, self.let = anyio.Event(), anyio.Event()
        if is_open:
            self.let.set()

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        self.begun.set()
        await self.let.wait()
        return ModelReply(message=assistant(self.text), finish_reason="stop")


def stored(folder: Path) -> list[Rollout]:
    """What is on record."""
    with open_run(folder / "run") as run:
        return list(run.rollouts())


async def test_real_tasks_are_played_by_name_and_are_on_record(tmp_path: Path) -> None:
    async with working(tmp_path, environments=("arithmetic",), model="mock/solver") as worker:
        cards = [card async for card in worker.tasks()][:3]
        rollouts = await worker.play_all(SampleRequest(card.id, group="step-1") for card in cards)
        assert [each.task.id for each in rollouts] == [card.id for card in cards]
        assert [each.reward for each in rollouts] == [1.0, 1.0, 1.0]
        with open_run(tmp_path / "run") as run:
            assert [run.rollout(each.rollout_id) for each in rollouts] == rollouts
    with open_run(tmp_path / "run") as run:
        assert run.info.status == "finished"


async def test_a_model_of_the_trainers_own_answers(tmp_path: Path) -> None:
    engine = Engine("the answer")
    async with working(tmp_path, model=engine, agent="single_turn") as worker:
        rollout = await worker.play(SampleRequest("3", sampling=rollouthub.Sampling(temperature=0.5, max_tokens=7)))
    assert (rollout.outcome, rollout.model) == (Outcome.SCORED, "trainer/engine")
    (asked,) = engine.asked
    assert (asked.session, asked.sampling.temperature, asked.sampling.max_tokens) == (rollout.rollout_id, 0.5, 7)


async def test_what_a_trainer_leaves_open_stays_as_the_run_says(tmp_path: Path) -> None:
    engine = Engine("the answer")
    run = {"temperature": 0.5, "stop": ["END"], "extra": {"min_p": 0.1, "top_k": 5}}
    asked = rollouthub.Sampling(temperature=1.0, top_p=None, stop=None, extra={"top_k": -1})
    async with working(tmp_path, model=engine, agent="single_turn", sampling=run) as worker:
        await worker.play(SampleRequest("3", sampling=asked))
    (request,) = engine.asked
    assert (request.sampling.temperature, request.sampling.stop) == (1.0, ("END",))
    assert request.sampling.extra == {"min_p": 0.1, "top_k": -1}


async def test_a_model_is_not_given_twice_nor_carried_to_other_machines(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="object of this process"):
        async with working(tmp_path, model=Engine(), pool="ray"):
            pytest.fail("it was to be refused")
    assert not (tmp_path / "run").exists()


async def test_members_of_a_group_share_the_environments_seed_and_no_other_does(tmp_path: Path) -> None:
    engine = Engine()
    async with working(tmp_path, model=engine) as worker:
        one, two = await worker.play_all(SampleRequest("0", group="a", sample=number) for number in range(2))
        other = await worker.play(SampleRequest("0", group="b"))
        alone, again = await worker.play_all([SampleRequest("0"), SampleRequest("0")])
    assert (one.group_id, one.seed, one.sample, two.sample) == (two.group_id, two.seed, 0, 1)
    assert len({asked.sampling.seed for asked in engine.asked}) == len(engine.asked) == 5
    assert len({one.group_id, other.group_id, alone.group_id, again.group_id}) == 4
    assert len({one.seed, other.seed, alone.seed, again.seed}) == 4


async def test_the_same_sample_is_played_once_whenever_it_is_asked_for(tmp_path: Path) -> None:
    engine, wanted = Engine(), SampleRequest("0", group="a")
    async with working(tmp_path, model=engine) as worker:
        first, at_once = await worker.play_all([wanted, wanted])
        assert first == at_once == await worker.play(wanted)
    async with working(tmp_path, model=engine, resume=True) as worker:
        assert await worker.play(wanted) == first
        assert len(engine.asked) == 1
        await worker.play(SampleRequest("1", group="a"))
    assert sorted(each.task.id for each in stored(tmp_path)) == ["0", "1"]


async def test_what_broke_is_handed_over_unscored_and_tried_again_when_asked_for(tmp_path: Path) -> None:
    async with working(tmp_path, world={"flaky": 2}) as worker:
        broken = await worker.play(SampleRequest("0", group="a"))
        assert (broken.outcome, broken.reward) == (Outcome.ENVIRONMENT_FAILED, None)
        rollouts = [await worker.play(SampleRequest("0", group="a")) for _ in range(3)]
    assert [(each.attempt, each.outcome) for each in rollouts] == [
        (1, Outcome.ENVIRONMENT_FAILED),
        (2, Outcome.SCORED),
        (2, Outcome.SCORED),
    ]


async def test_retries_come_before_the_record(tmp_path: Path) -> None:
    async with working(tmp_path, world={"flaky": 1}, retries={"infrastructure": 1}) as worker:
        rollout = await worker.play(SampleRequest("0"))
    assert (rollout.attempt, rollout.outcome) == (1, Outcome.SCORED)


async def test_turns_carry_the_version_that_the_trainer_says(tmp_path: Path) -> None:
    async with working(tmp_path, policy_version=7) as worker:
        first = await worker.play(SampleRequest("0"))
        worker.policy_version = 9
        second = await worker.play(SampleRequest("0"))
    assert [turn.policy_version for turn in first.turns] == [7]
    assert (second.policy_version_min, second.policy_version_max) == (9, 9)


async def test_nothing_is_asked_of_a_model_that_is_paused(tmp_path: Path) -> None:
    engine = Engine()
    async with working(tmp_path, model=engine) as worker, anyio.create_task_group() as tasks:
        worker.pause()
        tasks.start_soon(worker.play, SampleRequest("0"))
        await anyio.wait_all_tasks_blocked()
        assert engine.asked == []
        worker.resume()
    assert len(engine.asked) == 1


async def test_tasks_are_listed_without_their_answers(tmp_path: Path) -> None:
    async with working(tmp_path, environments=(str(WORLD), "arithmetic"), limit=2) as worker:
        world, arithmetic = worker.environments
        assert [card.id async for card in worker.tasks(world)] == ["0", "1"]
        cards = [card async for card in worker.tasks(arithmetic)]
        assert len(cards) == 2
        assert set(type(cards[0]).model_fields) >= {"id", "prompt"}
        assert "answer" not in cards[0].model_dump_json()
        with pytest.raises(ConfigError, match="name the environment"):
            await worker.play(SampleRequest("0"))


async def test_a_wrong_name_is_said_at_once(tmp_path: Path) -> None:
    async with working(tmp_path) as worker:
        for wanted in (
            SampleRequest("nowhere"),
            SampleRequest("0", environment="nowhere"),
            SampleRequest("0", split="nowhere"),
        ):
            with pytest.raises(UnknownNameError, match="nowhere"):
                await worker.play_all([wanted, SampleRequest("1")])
        assert (await worker.play(SampleRequest("1"))).outcome is Outcome.SCORED


async def test_a_limit_of_the_run_is_heard_by_everybody_who_waits(tmp_path: Path) -> None:
    heard = list[str]()

    async def wait(worker: RolloutWorker, task_id: str) -> None:
        try:
            await worker.play(SampleRequest(task_id))
        except SupplyError as error:
            heard.append(str(error))

    limits = {"max_tokens": 1}
    async with working(tmp_path, run_limits=limits, concurrency=1) as worker:
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(wait, worker, str(number))
        assert len(heard) == 3, "what was played to its end is handed over"
        assert all("limit of 1 tokens is reached" in said for said in heard)
        with pytest.raises(SupplyError, match="limit of 1 tokens"):
            await worker.play(SampleRequest("5"))
    async with working(tmp_path, run_limits=limits, concurrency=1, resume=True) as worker:
        with pytest.raises(SupplyError, match="limit of 1 tokens"):
            await worker.play(SampleRequest("5"))  # what was used before counts
    with open_run(tmp_path / "run") as run:
        assert run.info.status == "interrupted"


async def test_a_limit_of_time_is_kept(tmp_path: Path) -> None:
    limits = {"max_seconds": 1.5, "ending": "cancel"}
    async with working(tmp_path, model=Engine(is_open=False), run_limits=limits) as worker:
        assert (await worker.play(SampleRequest("0"))).outcome is Outcome.CANCELLED
        with pytest.raises(SupplyError, match="limit of"):
            await worker.play(SampleRequest("1"))


async def test_who_is_cancelled_takes_the_episode_back_unless_another_waits(tmp_path: Path) -> None:
    engine, wanted, rollouts = Engine(is_open=False), SampleRequest("0", group="a"), list[Rollout]()
    scopes = [anyio.CancelScope(), anyio.CancelScope()]

    async def wait(scope: anyio.CancelScope) -> None:
        with scope:
            rollouts.append(await worker.play(wanted))

    async with working(tmp_path, model=engine) as worker:
        async with anyio.create_task_group() as tasks:
            for scope in scopes:
                tasks.start_soon(wait, scope)
            await engine.begun.wait()
            scopes[0].cancel()
            await anyio.wait_all_tasks_blocked()
            engine.let.set()
        assert [each.outcome for each in rollouts] == [Outcome.SCORED]

        engine.begun, engine.let = anyio.Event(), anyio.Event()
        with anyio.CancelScope() as alone:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(worker.play, SampleRequest("1", group="a"))
                await engine.begun.wait()
                alone.cancel()
        engine.let.set()
        again = await worker.play(SampleRequest("1", group="a"))
        assert (again.attempt, again.outcome) == (1, Outcome.SCORED)
        with open_run(tmp_path / "run") as run:
            (cancelled,) = [each for each in run.attempts(again.rollout_id) if each.attempt == 0]
        assert cancelled.outcome is Outcome.CANCELLED


async def test_what_waits_for_its_turn_is_taken_back_without_a_record(tmp_path: Path) -> None:
    engine = Engine(is_open=False)
    async with working(tmp_path, model=engine, concurrency=1) as worker, anyio.create_task_group() as tasks:
        tasks.start_soon(worker.play, SampleRequest("0"))
        await engine.begun.wait()
        with anyio.move_on_after(0.01):
            await worker.play(SampleRequest("1"))
        engine.let.set()
    assert [each.task.id for each in stored(tmp_path)] == ["0"]


async def test_leaving_ends_what_is_in_flight_and_says_so(tmp_path: Path) -> None:
    engine, said = Engine(is_open=False), list[str]()

    async def wait(worker: RolloutWorker) -> None:
        try:
            await worker.play(SampleRequest("0"))
        except SupplyError as error:
            said.append(str(error))

    async with anyio.create_task_group() as tasks, working(tmp_path, model=engine) as worker:
        tasks.start_soon(wait, worker)
        await engine.begun.wait()
    assert said == ["the rollout worker was closed"]
    assert [each.outcome for each in stored(tmp_path)] == [Outcome.CANCELLED]
    with open_run(tmp_path / "run") as run:
        assert run.info.status == "interrupted"


async def test_an_error_of_the_trainer_arrives_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with working(tmp_path) as worker:
            await worker.play(SampleRequest("0"))
            _ = 1 / 0
    with open_run(tmp_path / "run") as run:
        assert run.info.status == "interrupted"


async def test_a_bug_in_the_engine_costs_its_episode_and_no_other(tmp_path: Path) -> None:
    class Broken(Engine):
        async def generate(self, request: ModelRequest) -> ModelReply:
            if "task 0" in str(request.messages):
                raise RuntimeError("engine is gone")
            return await super().generate(request)

    async with working(tmp_path, model=Broken()) as worker:
        broken, whole = await worker.play_all([SampleRequest("0"), SampleRequest("1")])
    assert broken.reward is None
    assert broken.outcome is not Outcome.SCORED
    assert whole.outcome is Outcome.SCORED


def test_a_trainer_without_an_event_loop_is_served(tmp_path: Path) -> None:
    asked = rollout_worker(
        environments=("arithmetic",), model="mock/solver", seed=0, directory=tmp_path / "run", credentials=NOBODY
    )
    with blocking_worker(asked) as worker:
        cards = worker.tasks(split="test")[:2]
        worker.policy_version = 4
        rollouts = worker.play_all(SampleRequest(card.id, split="test") for card in cards)
        assert {each.policy_version_min for each in rollouts} == {4}
        assert worker.play(SampleRequest(cards[0].id, split="test", group="a")).reward == 1.0
        with pytest.raises(UnknownNameError):
            worker.play(SampleRequest("nowhere"))


@pytest.mark.live
async def test_a_cluster_plays_what_is_asked_for(tmp_path: Path) -> None:
    with anyio.fail_after(180):
        async with rollout_worker(
            environments=("arithmetic",),
            model="mock/solver?accuracy=0.5",
            seed=0,
            pool="ray",
            workers=1,
            directory=tmp_path / "run",
            credentials=NOBODY,
        ) as worker:
            cards = [card async for card in worker.tasks()][:4]
            first = await worker.play_all(
                SampleRequest(card.id, group="a", sample=n) for card in cards for n in range(2)
            )
            worker.policy_version = 1
            second = await worker.play(SampleRequest(cards[0].id, group="b"))
    assert all(each.outcome is Outcome.SCORED for each in [*first, second])
    assert {each.policy_version_min for each in first} == {0}
    assert second.policy_version_min == 1


async def test_an_object_that_is_no_model_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    nothing: Any = object()
    with pytest.raises(ConfigError, match=r"is no model: give a name.*`async generate\(request\)`"):
        async with rollout_worker(environments=("arithmetic",), model=nothing, directory=tmp_path / "run"):
            pass
    assert not (tmp_path / "run").exists()


async def test_a_worker_without_anyone_to_play_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model plays"):
        async with working(tmp_path, model=None):
            pass
    assert not (tmp_path / "run").exists()


def test_one_environment_may_be_named_without_a_list() -> None:
    assert build_request({"environments": "arithmetic"}, "here").environments == ("arithmetic",)
    with pytest.raises(ConfigError, match="environments = 7"):
        build_request({"environments": 7}, "here")


@pytest.mark.parametrize("suspect", [False, True])
async def test_suspect_scores_come_as_any_other_only_where_that_is_asked_for(tmp_path: Path, suspect: bool) -> None:
    why = "the runner was replaced"
    async with working(tmp_path, model="mock/solver", world={"suspect": why}, suspect=suspect) as worker:
        played = await worker.play(SampleRequest("0"))
        again = await worker.play(SampleRequest("0"))
    more: dict[str, Any] = {"model": "mock/solver", "world": {"suspect": why}, "suspect": suspect}
    async with supplied(tmp_path / "supplied", **more) as supply:
        group = await anext(supply)
    for rollout in (played, again, *group.rollouts):
        for need in NEEDS:
            refused = why_refused(rollout, need)
            assert (refused and refused.refusal) is (None if suspect else Refusal.SUSPECT)
        assert rollout.reward is not None
    for kept in stored(tmp_path):
        assert kept.score is not None
        assert kept.score.suspect == why, "the record says so all the same"
