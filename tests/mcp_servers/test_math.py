"""The math environment over small files, and over the real ones."""

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import BadRow, Deadlines, Limits, Public, Secret, Submission, Task
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.hosting import InProcessHost
from rollouthub.messages import Message, assistant
from rollouthub.plugins.preset import Preset
from rollouthub_servers import math, presets
from rollouthub_servers.math import MathConfig, MathProblems
from rollouthub_servers.math.checker import check, close_workers


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    yield
    close_workers()


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def tasks(split: str = "test", **settings: Any) -> list[Task[Public, Secret]]:
    found = list(MathProblems.tasks(MathConfig(**settings), split, 0))
    assert all(isinstance(task, Task) for task in found), found
    return [task for task in found if isinstance(task, Task)]


def complaints(**settings: Any) -> list[str]:
    return [str(row.error) for row in MathProblems.tasks(MathConfig(**settings), "test", 0) if isinstance(row, BadRow)]


async def score(task: Task[Public, Secret], final: str, **settings: Any) -> float:
    environment = MathProblems(task, MathConfig(**settings), 0)
    verdict = await environment.verify(Submission(transcript=(assistant(final),)))
    assert verdict.passed == (verdict.reward == 1.0)
    return verdict.reward


@pytest.mark.parametrize(
    "row",
    [
        {"problem": "6*7", "answer": "42"},
        {"question": "6*7", "answer": "It is 6*7=6*7=4242.\n#### 42"},
        {"prompt": "6*7", "final_answer": 42},
        {"problem": "6*7", "solution": r"Thus \boxed{42}."},
        {"problem": "6*7", "answer": [42.0]},
    ],
)
async def test_columns_are_found_by_their_usual_names(tmp_path: Path, row: dict[str, Any]) -> None:
    (task,) = tasks(data=write(tmp_path / "a.jsonl", row))
    assert task.public.id == "test/0"
    assert isinstance(task.public.prompt, str)
    assert task.public.prompt.startswith("6*7\n\n")
    assert await score(task, r"\boxed{42}") == 1.0
    assert await score(task, r"\boxed{43}") == 0.0


async def test_a_text_may_stand_above_the_problem(tmp_path: Path) -> None:
    data = write(tmp_path / "rows.jsonl", {"Body": "I have 6 bags of 7. ", "problem": "How many?", "answer": "42"})
    (task,) = tasks(data=data, context="Body", instruction="")
    assert task.public.prompt == "I have 6 bags of 7.\nHow many?"
    (complaint,) = complaints(data=data, context="Boby")
    assert "missing column 'Boby'; did you mean 'Body'" in complaint


def test_columns_may_be_named(tmp_path: Path) -> None:
    data = write(tmp_path / "a.jsonl", {"q": "6*7", "a": "42", "key": "x", "from": "school"})
    settings = {"problem": "q", "answer": "a", "id_column": "key", "source_column": "from", "instruction": ""}
    (task,) = tasks(data=data, **settings)
    assert task.public == Public(id="x", prompt="6*7", source="school")
    assert task.secret.answer == ["42"]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"problems": "6*7", "answer": "42"}, "missing column 'problem' or 'question' or 'prompt'; did you mean"),
        ({"problem": "6*7", "anser": "42"}, "--set answer=anser"),
        ({"problem": "", "answer": "42"}, "the problem must be text"),
        ({"problem": 7, "answer": "42"}, "the problem must be text"),
        ({"problem": "6*7", "answer": None}, "column 'answer' holds no answer: None"),
        ({"problem": "6*7", "answer": "  "}, "column 'answer' holds no answer"),
        ({"problem": "6*7", "solution": "It is forty-two."}, "column 'solution' holds no answer"),
    ],
)
def test_a_row_that_makes_no_task_is_named_by_file_and_line(
    tmp_path: Path, row: dict[str, Any], complaint: str
) -> None:
    data = write(tmp_path / "a.jsonl", {"problem": "1+1", "answer": "2"}, row)
    (found,) = complaints(data=data)
    assert found.startswith(f"{data}:2: ")
    assert complaint in found


def test_data_must_be_named() -> None:
    with pytest.raises(ConfigError, match="--set data=PATH"):
        InProcessHost("math", MathProblems)


def test_a_split_that_is_not_there_is_refused(tmp_path: Path) -> None:
    host = InProcessHost("math", MathProblems, MathConfig(data=write(tmp_path / "a.jsonl", {"problem": "1"})))
    with pytest.raises(UnknownNameError):
        next(host.cards("train", 0))


@pytest.mark.parametrize("final", ["", "I cannot tell.", r"\boxed{}", "<think>it is 42"])
async def test_no_answer_is_worth_nothing(tmp_path: Path, final: str) -> None:
    (task,) = tasks(data=write(tmp_path / "a.jsonl", {"problem": "6*7", "answer": "42"}))
    assert await score(task, final) == 0.0


@pytest.mark.parametrize(
    ("final", "reward"),
    [
        ("Okay, so 6*7, let me see, that gives 42", 0.0),
        (r"So it is \boxed{42}", 0.0),
        ("It gives 42.</think>\n\nI cannot tell.", 0.0),
        ("It gives 41.</think>\n\nThe answer is 42.", 1.0),
    ],
)
async def test_a_response_cut_in_a_thought_that_the_template_opened_earns_nothing(
    tmp_path: Path, final: str, reward: float
) -> None:
    (task,) = tasks(data=write(tmp_path / "a.jsonl", {"problem": "6*7", "answer": "42"}))
    assert await score(task, final, opens_thought=True) == reward


async def test_an_answer_beside_a_thought_counts_where_the_template_opens_the_thought(tmp_path: Path) -> None:
    (task,) = tasks(data=write(tmp_path / "a.jsonl", {"problem": "6*7", "answer": "42"}))
    world = MathProblems(task, MathConfig(opens_thought=True), 0)
    parsed = Message(role="assistant", content="It is 42.", reasoning="6*7 gives 42.")
    for submission in (
        Submission(transcript=(parsed,)),  # a server's reasoning parser has taken the thought out
        Submission(answer="42", transcript=(assistant("I submit."),)),
        Submission(transcript=tuple(world.reference())),
    ):
        assert (await world.verify(submission)).reward == 1.0


async def test_an_answer_too_complex_to_check_is_wrong_and_counted(tmp_path: Path) -> None:
    (task,) = tasks(data=write(tmp_path / "a.jsonl", {"problem": "6*7", "answer": "42"}))
    environment = MathProblems(task, MathConfig(check_seconds=0.3), 0)
    verdict = await environment.verify(Submission(answer="9^{9^{9}}"))
    assert (verdict.reward, verdict.metrics["too_complex"]) == (0.0, 1.0)
    assert verdict.feedback is not None
    assert "0.3 s of CPU" in verdict.feedback


@pytest.mark.parametrize(
    ("preset", "tokens"),
    [
        (presets.gsm8k, None),
        (presets.aime24, 24_576),
        (math.deepscaler, 24_576),
        (math.deepscaler_8k, 8_192),
        (math.deepscaler_16k, 16_384),
        (math.deepscaler_24k, 24_576),
    ],
)
def test_named_configurations_hold_and_suggest_their_response_limit(preset: Preset, tokens: int | None) -> None:
    config = MathConfig.model_validate(dict(preset.defaults))
    assert preset.environment is MathProblems
    assert MathProblems.limits(config) == Limits(max_response_tokens=tokens)


REAL = {
    "aime": ("deepscaler", "aime", 30),
    "amc": ("deepscaler", "amc", 83),
    "math": ("deepscaler", "math", 500),
    "minerva": ("deepscaler", "minerva", 272),
    "train_aime": ("deepscaler", "train", 975),
    "gsm8k": ("gsm8k", "test", 1319),
}


SLOW = ("math", "minerva", "train_aime")
"""Hundreds of answers that are expressions, each checked as one: seconds each."""
QUICK = [pytest.param(name, marks=pytest.mark.soak if name in SLOW else []) for name in REAL]


def real(folder: Path, name: str) -> list[Task[Public, Secret]]:
    source, split, count = REAL[name]
    found = tasks(split, data=str(folder / source))
    assert len(found) == count
    return found


@pytest.mark.parametrize("name", QUICK)
async def test_every_reference_answer_passes_its_own_verifier(real_data: Path, name: str) -> None:
    rejected: list[str] = []

    async def play(task: Task[Public, Secret]) -> None:
        environment = MathProblems(task, MathConfig(data=name), 0)
        if (await environment.verify(Submission(transcript=tuple(environment.reference())))).reward != 1.0:
            rejected.append(f"{task.id}: {task.secret.answer}")

    async with anyio.create_task_group() as group:
        for task in real(real_data, name):
            group.start_soon(play, task)
    assert rejected == []


@pytest.mark.parametrize("name", REAL)
async def test_silence_passes_nowhere(real_data: Path, name: str) -> None:
    assert [await score(task, "") for task in real(real_data, name)] == [0.0] * REAL[name][2]


SAME_VALUE = {
    ("+2", "2"),
    ("024", "24"),
    ("035", "35"),
    ("120^\\circ", "120"),
    ("15", "15\\mbox{ cm}^2"),
    ("15\\mbox{ cm}^2", "15"),
    ("1950", "1950^\\circ C"),
    ("2 \\sqrt{5}", "2\\sqrt{5}"),
    ("3.61 \\times 10^{-10}", "3.61e-10"),
    ("30^\\circ", "30"),
    ("36^\\circ", "36"),
    ("5", "x=5"),
    ("x=5", "5"),
    ("E_{1},E_{2}", "E_1, E_2"),
    ("\\frac{1}{L C s^{2}+R C s+1}", "\\frac{1}{LCs^2 + RCs + 1}"),
    ("\\frac{\\cos(2t)}{15}", "\\frac{\\cos (2 t)}{15}"),
}
"""Pairs of answers to different tasks, read one by one, that say the same (units and degrees are not told apart)."""


async def false_accepts(found: list[Task[Public, Secret]], shift: int) -> tuple[list[tuple[str, str]], int]:
    """The answers of other tasks that pass for a task's own, and how many were tried."""
    accepted: list[tuple[str, str]] = []
    tried = 0

    async def offer(references: list[str], answer: str) -> None:
        if (await check(references, answer)).correct:
            accepted.append((references[0], answer))

    async with anyio.create_task_group() as group:
        for task, other in zip(found, islice(cycle(found), shift, None), strict=False):
            references: list[object] = task.secret.answer
            answers: list[object] = other.secret.answer
            assert isinstance(references, list)
            assert isinstance(answers, list)
            if not {str(one).strip() for one in references} & {str(one).strip() for one in answers}:
                tried += 1
                group.start_soon(offer, [str(one) for one in references], str(answers[0]))
    return [pair for pair in accepted if pair not in SAME_VALUE], tried


@pytest.mark.parametrize("name", QUICK)
async def test_the_next_tasks_answer_is_wrong(real_data: Path, name: str) -> None:
    accepted, tried = await false_accepts(real(real_data, name), 1)
    assert accepted == []
    assert tried > 0.9 * REAL[name][2]


@pytest.mark.soak
@pytest.mark.parametrize("name", REAL)
async def test_the_answers_of_many_other_tasks_are_wrong(real_data: Path, name: str) -> None:
    found = real(real_data, name)
    for shift in range(2, 22):
        accepted, _ = await false_accepts(found, shift)
        assert accepted == []


async def test_a_hosted_episode_is_answered_through_submit(tmp_path: Path) -> None:
    host = InProcessHost(
        "math",
        MathProblems,
        MathConfig(data=write(tmp_path / "a.jsonl", {"problem": "6*7", "answer": "42"})),
    )
    card = next(host.cards("test", 0))
    assert not isinstance(card, BadRow)
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        assert [tool.name for tool in episode.seats["agent"].tools] == ["get_task", "submit"]
        await episode.seats["agent"].call_tool("submit", {"answer": r"\boxed{42}"})
        assert (await episode.verify(Submission(answer=episode.answer))).reward == 1.0
