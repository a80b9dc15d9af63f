"""L11: a tool says what the verifier says of an answer."""

# ruff: noqa: RUF028

from collections.abc import Callable, Mapping

from rollouthub import Score
from tests.audit.answers import asked, number, phrase
from tests.audit.made_tasks import TEXT, Judge, MadeTask, MadeTool, State

Feedback = Callable[[str, str], str]
"""What the verifier says, of an answer and of the right one."""
FEEDBACK: Mapping[str, Feedback] = {
    "wrong-number": lambda said, a: f"wrong: the grader wanted a number of {len(a)} digits",
    "far-off": lambda said, a: f"the answer is off by more than {len(said) + 3} in the last place",
    "criteria": lambda said, a: "criterion 1 (names the year) failed, criterion 2 (gives a unit) failed",
    "first-letter": lambda said, a: f"the first letter should be {a[0]!r}, and the last one {a[-1]!r}",
    "score": lambda said, a: f"similarity to the reference is 0.{len(set(said) & set(a)):02} of 1.00",
    "tests": lambda said, a: "FAILED tests/test_total.py::test_sum - AssertionError",
    "judge": lambda said, a: "JUDGE: the response does not mention the second condition of the task",
    "length": lambda said, a: f"expected {len(a)} characters and got {len(said)} characters",
    "higher": lambda said, a: "too low, the reference value is higher than this one",
    "parse": lambda said, a: "could not parse the answer as an integer of the ledger",
}


def _judge(answer: str, feedback: Feedback) -> Judge:
    def judge(said: str, _: State) -> Score:
        right = said.strip() == answer
        return Score(reward=float(right), passed=right, feedback=None if right else feedback(said, answer))

    return judge


def _telling(answer: str, feedback: Feedback, *, raises: bool) -> MadeTool:
    def check(state: State, answer_so_far: str) -> str:
        said = feedback(answer_so_far, answer)
        if raises:
            raise ValueError(f"check failed: {said}")
        return f"checked {answer_so_far[:10]}: {said}"

    return MadeTool(check, "Check an answer before it is given.", {"answer_so_far": TEXT})


def tasks() -> list[MadeTask]:
    """Twenty of them: each of ten verifiers speaks in a result, and in an error."""
    made: list[MadeTask] = []
    for name, feedback in FEEDBACK.items():
        for raises in (False, True):
            answer = number(name) if raises else phrase(name)
            tool = _telling(answer, feedback, raises=raises)
            made.append(
                MadeTask(
                    f"{name}-{'error' if raises else 'result'}",
                    asked(name),
                    answer,
                    _judge(answer, feedback),
                    "L11",
                    tools={"check": tool},
                )  # fmt: skip
            )
    return made
