"""The doctor names what ails a run, by cause, and leaves a healthy one alone."""

from pathlib import Path
from typing import Any

from rollouthub import Outcome, Score, Stop
from rollouthub.analysis.run_doctor.examine import Examination, examine_run
from rollouthub.analysis.run_doctor.symptom import Symptom
from rollouthub.rollout import Fault, Rollout, Timings, Turn
from rollouthub.store import open_writer
from tests.store.records import RESOLVED, conversation, record, write


async def examined(folder: Path, records: list[Rollout], **facts: Any) -> Examination:
    """The doctor's word on a run of these records."""
    async with open_writer(folder / "run", resolved=RESOLVED, given="", resume=False) as writer:
        writer.set_plan(
            facts.pop("planned", len({rollout.rollout_id for rollout in records})), facts.pop("bad_rows", 0)
        )
        for rollout in records:
            await writer.add(rollout)
    return examine_run(folder / "run", **facts)


def named(examination: Examination, name: str) -> Symptom:
    """The one symptom of this name."""
    (found,) = (symptom for symptom in examination.symptoms if symptom.name == name)
    return found


def healthy(count: int, **changes: Any) -> list[Rollout]:
    """Rollouts that are all alike but for their rewards."""
    return [healthy_one(number, **changes) for number in range(count)]


def healthy_one(number: int, **changes: Any) -> Rollout:
    """One of them, after the run was made."""
    reward = Score(reward=float(number % 2), passed=number % 2 == 1)
    fields: dict[str, Any] = {"score": reward, "started_at": 4e9 + number, "trainable": True, **changes}
    return record(f"g{number}-0", **fields)


def broken(number: int, message: str, *, status: int | None = None, attempt: int = 0) -> Rollout:
    """An attempt that the model's server broke."""
    fault = Fault(boundary="model", phase="agent", type="ModelError", message=message, status=status)
    return record(f"f{number}-0", attempt, Outcome.MODEL_FAILED, faults=(fault,), started_at=4e9)


NOW = 4e9 + 1e4


async def test_a_healthy_run_has_no_problem(tmp_path: Path) -> None:
    examination = await examined(tmp_path, healthy(40), now=NOW)
    assert not examination.has_problems
    assert {symptom.weight for symptom in examination.symptoms} <= {"fact"}
    assert examination.outliers == ()


async def test_faults_are_put_together_by_cause_with_an_example_and_what_to_do(tmp_path: Path) -> None:
    records = healthy(40)
    records += [broken(number, f"cannot connect to host 10.0.0.{number}:8000") for number in range(5)]
    records += [broken(number, "HTTP 429: slow down", status=429) for number in range(5, 8)]
    examination = await examined(tmp_path, records, now=NOW)
    first, second = (symptom for symptom in examination.symptoms if symptom.name == "model:ModelError")
    assert (first.count, first.field, first.cause) == (5, "connection", "nothing answers at the server's address")
    assert (second.count, second.cause) == (3, "a rate limit")
    assert "--rpm" in second.mend
    assert second.examples == ("f5-0", "f6-0", "f7-0")
    assert named(examination, "low coverage").count == 8


async def test_a_fault_that_another_attempt_made_good_is_no_problem(tmp_path: Path) -> None:
    records = [*healthy(40), broken(1, "HTTP 503: busy", status=503)]
    records.append(record("f1-0", attempt=1, started_at=4e9 + 1, trainable=True))
    examination = await examined(tmp_path, records, now=NOW)
    fault = named(examination, "model:ModelError")
    assert (fault.weight, fault.cause) == ("remark", "the server failed")
    assert not examination.has_problems


async def test_a_rollout_far_from_its_fellows_is_an_outlier_and_says_in_what(tmp_path: Path) -> None:
    slow = Timings(setup=0.25, agent=60.0, model=59.0, tool=0.5, total=61.0)
    records = [*healthy(40), record("slow-0", timings=slow, turns=conversation(12), started_at=4e9, trainable=True)]
    examination = await examined(tmp_path, records, now=NOW)
    (outlier,) = examination.outliers
    assert outlier.attempt.rollout_id == "slow-0"
    assert "model 59 s (median 1.5 s)" in outlier.why
    assert any(why.startswith("turns 12 ") for why in outlier.why)


async def test_all_zero_is_the_verifiers_or_the_prompts_fault(tmp_path: Path) -> None:
    examination = await examined(tmp_path, healthy(25, score=Score(reward=0.0, passed=False)), now=NOW)
    symptom = named(examination, "one reward for all")
    assert (symptom.weight, symptom.field) == ("problem", "verifier")


async def test_groups_of_one_reward_are_counted_and_the_odd_one_out_is_named(tmp_path: Path) -> None:
    records = [
        record(f"g{group}-{sample}", score=Score(reward=float(group)), started_at=4e9, trainable=True)
        for group in range(4)
        for sample in range(6)
    ]
    records += [
        record(f"odd-{sample}", score=Score(reward=float(sample == 3)), started_at=4e9, trainable=True)
        for sample in range(6)
    ]
    examination = await examined(tmp_path, records, now=NOW)
    assert named(examination, "constant groups").count == 4
    assert named(examination, "odd ones out").examples == ("odd-3",)


async def test_limits_cut_offs_and_empty_or_unreadable_answers_are_told_apart(tmp_path: Path) -> None:
    empty = Turn(index=0, messages=(), response=conversation(1)[0].response.model_copy(update={"tool_requests": ()}))
    said = empty.model_copy(update={"response": empty.response.model_copy(update={"content": "seven"})})
    unread = Score(reward=0.0, passed=False, metrics={"answered": 0.0}, feedback="no answer was found")
    cut = said.model_copy(update={"finish_reason": "length"})
    records = healthy(20, turns=(said,))
    flaws: list[dict[str, Any]] = [
        {"stop": Stop.TURN_LIMIT, "turns": (said,)},
        {"turns": (cut,)},
        {"turns": (empty,)},
        {"score": unread, "turns": (said,)},
    ]
    for place, flaw in enumerate(flaws):
        records += [healthy_one(100 * place + number, **flaw) for number in range(100, 105)]
    examination = await examined(tmp_path, records, now=NOW)
    names = ("stopped by the limit of turns", "responses cut off", "empty answers", "answers that cannot be read")
    assert [named(examination, name).count for name in names] == [5, 5, 5, 5]
    assert not examination.has_problems


async def test_bad_rows_and_rollouts_that_were_not_played_are_problems(tmp_path: Path) -> None:
    examination = await examined(tmp_path, healthy(40), planned=80, bad_rows=10, now=NOW)
    assert named(examination, "bad rows").weight == "problem"
    assert "40 of them were not played" in named(examination, "low coverage").says


async def test_the_stage_that_bounds_the_run_is_named(tmp_path: Path) -> None:
    timings = Timings(setup=0.1, agent=1.0, model=0.8, verify=9.0, total=10.1)
    examination = await examined(tmp_path, healthy(40, timings=timings), now=NOW)
    assert named(examination, "bottleneck: verify").weight == "remark"


async def test_times_before_the_run_or_in_the_future_are_a_clocks_fault(tmp_path: Path) -> None:
    examination = await examined(tmp_path, healthy(40), now=4e9 - 1e6)
    assert named(examination, "clock jumps").count == 40


async def test_a_pause_with_episodes_in_flight_is_told(tmp_path: Path) -> None:
    records = healthy(40)
    # Ten more that began before the pause and ended after it.
    long = Timings(agent=3000.0, total=3000.0)
    records += [record(f"p{n}-0", timings=long, started_at=4e9 + n, trainable=True) for n in range(10)]
    examination = await examined(tmp_path, records, now=NOW)
    assert named(examination, "a pause").count == 10


async def test_model_calls_that_are_tried_again_and_again_are_a_storm(tmp_path: Path) -> None:
    tried = tuple(turn.model_copy(update={"retries": 3}) for turn in conversation(2))
    again = [healthy_one(number, turns=tried) for number in range(100, 120)]
    examination = await examined(tmp_path, [*healthy(30), *again], now=NOW)
    symptom = named(examination, "model calls tried again")
    assert (symptom.weight, symptom.count) == ("problem", 20)


async def test_a_run_without_rollouts_is_empty(tmp_path: Path) -> None:
    await write(tmp_path / "run", [])
    assert named(examine_run(tmp_path / "run", now=NOW), "empty run").weight == "problem"
