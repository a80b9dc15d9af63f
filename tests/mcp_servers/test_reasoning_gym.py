"""The generators of reasoning-gym as splits."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rollouthub import BadRow, Deadlines, Public, Secret, Submission, Task, VerifierError
from rollouthub.errors import ConfigError
from rollouthub.hosting import InProcessHost
from rollouthub.messages import assistant
from rollouthub_servers.reasoning_gym import Puzzle, ReasoningGym, ReasoningGymConfig, find_answer
from rollouthub_servers.reasoning_gym.guard import is_plain_mathematics
from rollouthub_servers.reasoning_gym.library import close_workers

if find_spec("reasoning_gym") is None:
    pytest.skip("the extra reasoning-gym is not installed", allow_module_level=True)

UNUSABLE = {
    "composite": "Must specify at least one dataset",
    "game_of_life_halting": "gives any answer full marks",
}
"""Generators that need options, or whose scorer says yes to everything."""
WITHOUT_REFERENCE = {"boxnet", "rush_hour"}
FLOOR = 0.05
"""Most that the library's scorers give for words that are no answer."""


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    yield
    close_workers()


def tasks(split: str, seed: int = 0, **settings: Any) -> list[Task[Public, Secret]]:
    found = list(ReasoningGym.tasks(ReasoningGymConfig.model_validate({"size": 2, **settings}), split, seed))
    assert all(isinstance(task, Task) for task in found), found
    return [task for task in found if isinstance(task, Task)]


def environment(task: Task[Public, Secret], **settings: Any) -> ReasoningGym:
    return ReasoningGym(task, ReasoningGymConfig(**settings), 0)


async def reward(task: Task[Public, Secret], answer: str, **settings: Any) -> float:
    verdict = await environment(task, **settings).verify(Submission(answer=answer))
    assert verdict.passed == (verdict.reward >= 1)
    return verdict.reward


SPLITS = ReasoningGym.splits(ReasoningGymConfig()) if find_spec("reasoning_gym") else ()
USABLE = [split for split in SPLITS if split not in UNUSABLE]


def test_every_generator_is_a_split() -> None:
    assert len(SPLITS) > 100
    assert SPLITS[0] == "basic_arithmetic"
    assert {"sudoku", "countdown", "word_ladder", *UNUSABLE} < set(SPLITS)


@pytest.mark.parametrize(
    "split", [split if at % 4 == 0 else pytest.param(split, marks=pytest.mark.soak) for at, split in enumerate(USABLE)]
)
async def test_a_generator_repeats_itself_rewards_its_own_answer_and_no_other(split: str) -> None:
    found, again, other = tasks(split, 0), tasks(split, 0), tasks(split, 1)
    assert [task.digest for task in found] == [task.digest for task in again]
    assert [task.public.prompt for task in found] != [task.public.prompt for task in other]
    for task in found:
        assert await reward(task, "I cannot tell.") <= FLOOR
        silent = await environment(task).verify(Submission(transcript=(assistant("No idea."),)))
        assert (silent.reward, silent.metrics) == (0.0, {"answered": 0.0})
        reference = tuple(environment(task).reference())
        assert bool(reference) == (split not in WITHOUT_REFERENCE)
        if reference:
            verdict = await environment(task).verify(Submission(transcript=reference))
            assert (verdict.reward, verdict.passed) == (1.0, True)


@pytest.mark.parametrize(("split", "reason"), UNUSABLE.items())
def test_a_generator_that_cannot_be_used_says_why(split: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"generator '{split}' cannot be used: .*{reason}"):
        tasks(split)


HASHED = ("isomorphic_strings", "knight_swap", "polynomial_multiplication", "ransom_note", "word_ladder")
"""Generators that follow the order of a set: other processes would make other tasks."""
DRAWN = (*HASHED, "list_functions", "pool_matrix")
"""The last two draw from global streams."""


def test_another_process_makes_the_same_tasks() -> None:
    code = (
        "from rollouthub_servers.reasoning_gym import ReasoningGym, ReasoningGymConfig\n"
        f"for split in {DRAWN}:\n"
        "    print(*(task.digest for task in ReasoningGym.tasks(ReasoningGymConfig(size=3), split, 7)))\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here = [
        " ".join(task.digest for task in tasks(split, 7, size=3))
        for split in (*HASHED, "list_functions", "pool_matrix")
    ]
    assert said.splitlines() == here


def test_a_larger_size_begins_with_the_same_tasks() -> None:
    small, large = tasks("chain_sum", size=3), tasks("chain_sum", size=40)
    assert [task.public for task in large[:3]] == [task.public for task in small]
    assert len({task.id for task in large}) == 40


def test_options_are_the_generators_own() -> None:
    (task,) = tasks("chain_sum", size=1, options={"min_terms": 9, "max_terms": 9})
    assert str(task.public.prompt).count("+") + str(task.public.prompt).count(" - ") >= 8
    with pytest.raises(ConfigError, match=r"generator 'chain_sum' cannot be used: TypeError.*min_therms"):
        tasks("chain_sum", options={"min_therms": 9})


def test_nothing_but_the_question_is_public() -> None:
    for split in ("graph_color", "rubiks_cube", "countdown"):
        (task,) = tasks(split, size=1)
        assert isinstance(task.secret, Puzzle)
        assert task.public.metadata == {}
        assert str(task.secret.answer) not in task.public.model_dump_json()


async def test_partial_credit_is_kept() -> None:
    (task,) = tasks("spell_backward", size=1)
    answer = str(task.secret.answer)
    partial = await environment(task).verify(Submission(answer=answer[:-1] + "#"))
    assert 0 < partial.reward < 1
    assert partial.passed is False


@pytest.mark.parametrize(
    ("submission", "answer"),
    [
        (Submission(answer=" 42 "), "42"),
        (Submission(answer="It is <answer>42</answer>."), "42"),
        (Submission(transcript=(assistant("<answer>1</answer> no, <answer>\n42\n</answer>"),)), "42"),
        (Submission(transcript=(assistant("<think><answer>1</answer></think><answer>42</answer>"),)), "42"),
        (Submission(transcript=(assistant("It is 42."),)), None),
        (Submission(transcript=(assistant("<answer></answer>"),)), None),
        (Submission(), None),
    ],
)
def test_the_answer_stands_in_its_tag(submission: Submission, answer: str | None) -> None:
    assert find_answer(submission) == answer


def entries(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


RUNS = "__import__('pathlib').Path({mark!r}).touch()"
EVALUATING = ("spiral_matrix", "string_insertion", "binary_matrix", "n_queens", "number_sorting", "bitwise_arithmetic")
PARSING = ("countdown", "puzzle24", "simple_integration", "intermediate_integration", "polynomial_multiplication")


@pytest.mark.parametrize("split", [*EVALUATING, *PARSING])
async def test_an_answer_is_never_run(split: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (task,) = tasks(split, size=1)
    attack = RUNS.format(mark=str(mark))
    for answer in (attack, f"[{attack}]", f"[[{attack}]]", f"({attack},)", f"x + {attack}", f"[a for a in [{attack}]]"):
        assert await reward(task, answer) <= FLOOR
    assert entries(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        ("3*x**2 + sin(x)/2 + C", True),
        ("(1 + 2.5) * 1e3 - .5", True),
        ("__import__('os')", False),
        ("x.diff", False),
        ("exec(chr(1))", False),
        ("'a'", False),
        ("[1]", False),
        ("lambda: 1", False),
        ("x;y", False),
    ],
)
def test_plain_mathematics_names_nothing_that_acts(text: str, is_plain: bool) -> None:
    assert is_plain_mathematics(text) == is_plain


def test_every_place_where_the_library_evaluates_text_is_known() -> None:
    spec = find_spec("reasoning_gym")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    risky = re.compile(r"\beval\(|\bexec\(|sympify|parse_expr\(|\bpickle\b|\bsubprocess\b|os\.system|__import__")
    found = {
        str(file.relative_to(folder))
        for file in folder.rglob("*.py")
        if file.parts[-2] != "coaching" and risky.search(file.read_text())
    }
    generating = {
        "code/codeio.py",  # runs programs of its own data while it makes a task
        "arithmetic/basic_arithmetic.py",
        "arithmetic/gsm_symbolic/generators_00_49.py",
        "arithmetic/gsm_symbolic/generators_50_99.py",
        "logic/propositional_logic.py",  # a parser of its own
    }
    scoring = {
        "algorithmic/spiral_matrix.py",
        "algorithmic/string_insertion.py",
        "algorithmic/binary_matrix.py",
        "algorithmic/number_sorting.py",
        "arithmetic/bitwise_arithmetic.py",
        "games/n_queens.py",
        "games/countdown.py",
        "games/puzzle24.py",
        "algebra/simple_integration.py",
        "algebra/intermediate_integration.py",
        "algebra/polynomial_multiplication.py",
    }
    assert found == generating | scoring


async def test_an_answer_too_costly_to_score_is_wrong() -> None:
    (task,) = tasks("countdown", size=1)
    verdict = await environment(task, check_seconds=0.5).verify(Submission(answer="9**9**9**9"))
    assert verdict.reward <= FLOOR
    assert "0.5 s of CPU" in str(verdict.feedback)
    assert await reward(task, str(task.secret.answer)) == 1.0


async def test_an_answer_that_its_scorer_cannot_read_is_wrong() -> None:
    (task,) = tasks("prime_factorization", size=1)
    verdict = await environment(task).verify(Submission(answer="seven"))
    assert verdict.reward == 0.0
    assert "cannot read (ValueError" in str(verdict.feedback)


async def test_a_puzzle_that_cannot_be_made_again_is_the_verifiers_fault() -> None:
    (task,) = tasks("chain_sum", size=1)
    assert isinstance(task.secret, Puzzle)
    broken = Task(
        task.public, task.secret.model_copy(update={"recipe": task.secret.recipe.replace("chain_sum", "gone")})
    )
    with pytest.raises(VerifierError, match=r"could not be scored: .*'gone' not registered"):
        await environment(broken).verify(Submission(answer="1"))


async def test_a_hosted_episode_is_answered_through_submit() -> None:
    host = InProcessHost("reasoning_gym", ReasoningGym, ReasoningGymConfig(size=1))
    card = next(host.cards("leg_counting", 0))
    assert not isinstance(card, BadRow)
    assert host.info.scores_transcripts
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        (said,) = await episode.reference()
        await episode.seats["agent"].call_tool("submit", {"answer": said.text})
        assert (await episode.verify(Submission(answer=said.text))).reward == 1.0


def test_the_library_stays_out_of_this_process() -> None:
    code = (
        "import sys\nfrom rollouthub_servers.reasoning_gym import ReasoningGym, ReasoningGymConfig\n"
        "list(ReasoningGym.tasks(ReasoningGymConfig(size=1), 'chain_sum', 0))\n"
        "print([name for name in ('reasoning_gym', 'numpy', 'sympy') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"
