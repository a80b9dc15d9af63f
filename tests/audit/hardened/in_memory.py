"""Tasks without a defect: numbers, choices, words, JSON, programs, worlds of tools, and conversations."""

# ruff: noqa: E501

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rollouthub import Score
from tests.audit.answers import asked, number, phrase
from tests.audit.made_tasks import TEXT, WHOLE, Judge, MadeTask, MadeTool, State
from tests.audit.program_runs import Ran, ran


def _float(said: str) -> float:
    try:
        return float(said.strip().replace(",", ""))
    except ValueError:
        return math.nan


def _parsed(said: str) -> Any:
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return None


_IN_BOX = "Put the answer into \\boxed{}."


def _boxed(said: str) -> str:
    found = re.findall(r"\\boxed\{([^{}]*)\}", said)
    return found[-1].strip() if found else ""


def _numbers() -> Iterator[MadeTask]:
    for name in ("weight", "distance", "population", "price"):
        value = number(name, 6)
        yield MadeTask(name, asked(name), value, lambda said, _, v=value: _float(said) == int(v))
    yield MadeTask("pi-times", asked("pi"), "21.99", lambda said, _: math.isclose(_float(said), 21.99, rel_tol=1e-5))
    yield MadeTask("below-zero", asked("cold"), "-40", lambda said, _: _float(said) == -40)
    for name, value in (("boxed", number("boxed", 5)), ("boxed-again", "17")):
        prompt = f"{asked(name)} {_IN_BOX}"
        yield MadeTask(name, prompt, f"So it is \\boxed{{{value}}}.", lambda said, _, v=value: _boxed(said) == v)
    yield MadeTask(
        "fraction",
        f"{asked('f')} {_IN_BOX} Give a fraction a/b in lowest terms.",
        "\\boxed{3/8}",
        lambda said, _: _boxed(said) == "3/8",
    )


def _choices() -> Iterator[MadeTask]:
    options = ("red", "green", "blue", "white")
    for index, right in enumerate("ACDB"):
        lines = "\n".join(f"{letter}) {option}" for letter, option in zip("ABCD", options, strict=True))
        yield MadeTask(
            f"choice-{index}", f"{asked(f'flag {index}')}\n{lines}", right,
            lambda said, _, r=right: re.fullmatch(rf"\s*\(?{r}\)?\.?\s*", said) is not None,
        )  # fmt: skip


def _words() -> Iterator[MadeTask]:
    for name in ("street", "captain", "ship"):
        answer = phrase(name)
        yield MadeTask(name, asked(name), answer, lambda said, _, a=answer: said.strip().lower() == a)
    poem = "the owl\nthe oak\nthe ash"
    yield MadeTask(
        "lines",
        asked("trees"),
        poem,
        lambda said, _: [each.strip() for each in said.strip().splitlines()] == poem.split("\n"),
    )


def _more_words() -> Iterator[MadeTask]:
    yield MadeTask("date", asked("date"), "1969-07-20", lambda said, _: said.strip() == "1969-07-20")
    yield MadeTask(
        "with-unit", asked("unit"), "8848 m", lambda said, _: re.fullmatch(r"\s*8848\s*m\s*", said) is not None
    )
    names = {"onyx", "pewter", "marble"}
    yield MadeTask(
        "any-order",
        asked("any order"),
        "onyx, pewter, marble",
        lambda said, _: sorted(re.split(r"[\s,]+", said.strip())) == sorted(names),
    )
    yield MadeTask("yes-or-no", f"{asked('yes')} Yes or no?", "yes", lambda said, _: said.strip().lower() == "yes")
    code = "7F-" + number("code", 5)
    yield MadeTask("code", asked("code"), code, lambda said, _: said.strip().upper() == code)


def _records() -> Iterator[MadeTask]:
    for name, value in (
        ("record", {"name": "Ada", "born": 1815, "town": "London"}),
        ("nested", {"route": {"from": "Oslo", "to": "Bergen"}, "km": 463}),
        ("list", [4, 8, 15, 16, 23, 42]),
        ("table", [{"id": 1, "sum": 40}, {"id": 2, "sum": 2}]),
    ):
        yield MadeTask(
            name, f"{asked(name)} Answer in JSON.", json.dumps(value), lambda said, _, v=value: _parsed(said) == v
        )


_REFERENCE = {
    "square": ("def square(x):\n    return x * x", ((3, 9), (-4, 16), (0, 0))),
    "sign": ("def sign(x):\n    return (x > 0) - (x < 0)", ((3, 1), (-4, -1), (0, 0))),
    "digits": ("def digits(x):\n    return sum(int(each) for each in str(abs(x)))", ((123, 6), (-45, 9), (0, 0))),
    "fibonacci": (
        "def fibonacci(x):\n    a, b = 0, 1\n    for _ in range(x):\n        a, b = b, a + b\n    return a",
        ((10, 55), (1, 1), (0, 0)),
    ),
}


def _program_judge(name: str, cases: tuple[tuple[int, int], ...]) -> Judge:
    """Only values cross: the program prints each result to a pipe of its own, and is told nothing but arguments."""
    driver = f"import os\nout = os.dup(1)\nos.dup2(2, 1)\nfrom solution import {name}\nfor line in sys.stdin:\n    value = {name}(int(line))\n    os.write(out, (f'{{value:d}}' if type(value) is int else 'x').encode() + b'\\n')\n"

    async def judge(said: str, _: State) -> float:
        blocks = re.findall(r"```(?:python)?\n(.*?)```", said, re.DOTALL)
        program = blocks[-1] if blocks else said
        if f"def {name}" not in program:
            return 0.0
        results = [await _result(program, driver, argument) for argument, _ in cases]
        return float(results == [expected for _, expected in cases])

    return judge


async def _result(program: str, driver: str, argument: int) -> int | None:
    done: Ran = await ran(program, driver, given=f"{argument}\n")
    lines = done.output.splitlines()
    return int(lines[0]) if len(lines) == 1 and re.fullmatch(r"-?\d{1,9}", lines[0]) else None


def _programs() -> Iterator[MadeTask]:
    for name, (program, cases) in _REFERENCE.items():
        prompt = f"Write a Python function `{name}(x)` of a whole number, as its name says."
        answer = f"```python\n{program}\n```" if name != "sign" else program
        yield MadeTask(f"program-{name}", prompt, answer, _program_judge(name, cases))


def _move(state: State, sender: str, receiver: str, amount: int) -> str:
    if sender not in state["accounts"] or receiver not in state["accounts"] or amount <= 0:
        raise ValueError("no such account, or nothing to move")
    if state["accounts"][sender] < amount:
        raise ValueError(f"{sender} has less than that")
    state["accounts"][sender] -= amount
    state["accounts"][receiver] += amount
    return f"moved {amount}"


def _look(state: State, name: str) -> str:
    if name not in state["accounts"]:
        raise LookupError("no such account")
    return str(state["accounts"][name])


def _world(
    name: str, start: Mapping[str, int], steps: list[tuple[str, Mapping[str, Any]]], end: Mapping[str, int]
) -> MadeTask:
    tools = {
        "move": MadeTool(_move, "Move money.", {"sender": TEXT, "receiver": TEXT, "amount": WHOLE}),
        "balance": MadeTool(_look, "The balance of an account.", {"name": TEXT}),
    }
    return MadeTask(
        name, f"Settle what the contract of {name!r} says.", None, lambda _, state: state["accounts"] == end, steps=steps,
        tools=tools, state=lambda: {"accounts": dict(start)},
    )  # fmt: skip


def _worlds() -> Iterator[MadeTask]:
    one = {"sender": "ann", "receiver": "bob", "amount": 70}
    two = {"sender": "bob", "receiver": "cleo", "amount": 15}
    start = {"ann": 100, "bob": 5, "cleo": 0}
    yield _world("one-payment", start, [("move", one)], {"ann": 30, "bob": 75, "cleo": 0})
    yield _world("two-payments", start, [("move", one), ("move", two)], {"ann": 30, "bob": 60, "cleo": 15})
    yield _world("look-first", start, [("balance", {"name": "ann"}), ("move", one)], {"ann": 30, "bob": 75, "cleo": 0})
    hidden = number("vault", 8)
    yield MadeTask(
        "found-by-a-tool", "What does the vault say? Use the tools.", hidden, lambda said, _: said.strip() == hidden,
        steps=[("open", {"door": "north"})],
        tools={"open": MadeTool(lambda _, door: hidden if door == "north" else "an empty room", "Open a door.", {"door": TEXT})},
    )  # fmt: skip
    yield MadeTask(
        "untouched-is-half", "Move the lamp, if you must.", None, lambda _, state: 1.0 if state["lamp"] == "hall" else 0.5,
        steps=[("put", {"place": "hall"})], floor=0.5, state=lambda: {"lamp": "desk"},
        tools={"put": MadeTool(lambda state, place: state.update(lamp=place) or "put", "Put the lamp.", {"place": TEXT})},
    )  # fmt: skip


def _talks() -> Iterator[MadeTask]:
    for name, talk in (("greeted", ("And what then?",)), ("asked-twice", ("Are you sure?", "Say it again, please."))):
        answer = phrase(name)
        yield MadeTask(name, asked(name), answer, lambda said, _, a=answer: said.strip() == a, talk=talk)


def _graded() -> Iterator[MadeTask]:
    answer = number("graded")

    def judge(said: str, _: State) -> Score:
        right = said.strip() == answer
        return Score(reward=float(right), passed=right, feedback="right" if right else "it is another number than that")

    yield MadeTask("with-feedback", asked("graded"), answer, judge)
    shown = phrase("shown")
    yield MadeTask(
        "pinned-tests", "Write what you find.", shown, lambda said, _: said.strip() == shown,
        files={
            "tests/test.sh": "pip install pytest==8.3.4\ncurl -LO https://example.com/v1.2.3/data.json\npytest /tests\n",
            "environment/Dockerfile": "FROM python:3.12-slim\n",
        },
    )  # fmt: skip
    yield MadeTask(
        "mentioned-file", "Write the totals to /app/totals.json.", phrase("totals"),
        lambda said, _: said.strip() == phrase("totals"),
        files={"tests/test.py": "open('/app/totals.json').read()", "solution/solve.sh": "echo > /app/totals.json"},
    )  # fmt: skip


def tasks() -> list[MadeTask]:
    """All of them."""
    return [
        *_numbers(), *_choices(), *_words(), *_more_words(), *_records(), *_programs(), *_worlds(), *_talks(), *_graded(),
    ]  # fmt: skip
