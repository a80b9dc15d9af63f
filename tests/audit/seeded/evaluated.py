"""L12: the verifier runs the answer as code."""

# ruff: noqa: RUF028, SIM202

# that is the defect
import math
from collections.abc import Callable, Mapping
from typing import Any

from tests.audit.answers import asked, number
from tests.audit.made_tasks import MadeTask

Run = Callable[[str], Any]
"""Makes a value of an answer."""
RUNS: Mapping[str, Run] = {
    "eval": lambda said: eval(said),
    "eval-stripped": lambda said: eval(said.strip()),
    "eval-without-names": lambda said: eval(said, {}),
    "eval-with-math": lambda said: eval(said, {"math": math}),
    "eval-of-frame": lambda said: eval(said.partition("\\boxed{")[2].rpartition("}")[0] or said),
    "eval-in-parentheses": lambda said: eval(f"({said.strip()})"),
    "eval-in-a-list": lambda said: eval(f"[{said.strip()}]")[0],
    "eval-in-a-tuple": lambda said: eval(f"({said.strip()},)")[0],
    "eval-compiled": lambda said: eval(compile(said.strip(), "answer", "eval")),
    "exec-assigned": lambda said: _executed(f"answer = {said.strip()}"),
    "exec-returned": lambda said: _executed(f"def f():\n    return {said.strip()}\nanswer = f()"),
    "lambda": lambda said: eval(f"lambda: {said.strip()}")(),
    "in-a-dict": lambda said: eval(f"{{'a': {said.strip()}}}")["a"],
    "first-line": lambda said: eval(said.strip().splitlines()[0]),
    "without-dollars": lambda said: eval(said.replace("$", "").strip()),
    "caret-as-power": lambda said: eval(said.replace("^", "**").strip()),
}
COMPARES: Mapping[str, Callable[[Any, int], bool]] = {
    "equal": lambda value, expected: value == expected,
    "expected-first": lambda value, expected: expected == value,
    "not-unequal": lambda value, expected: not value != expected,
    "in-a-list": lambda value, expected: value in [expected],
}


def _executed(program: str) -> Any:
    names: dict[str, Any] = {}
    exec(program, names)
    return names["answer"]


def _judge(said: str, run: Run, compare: Callable[[Any, int], bool], expected: int) -> bool:
    try:
        return bool(compare(run(said), expected))
    except Exception:
        return False


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    pairs = [(name, "equal") for name in RUNS] + [("eval", other) for other in COMPARES if other != "equal"]
    pairs.append(("exec-assigned", "expected-first"))
    made: list[MadeTask] = []
    for run, compare in pairs:
        name = f"{run}-{compare}"
        answer = number(name, 6)
        text = f"\\boxed{{{answer}}}" if run == "eval-of-frame" else answer
        made.append(
            MadeTask(
                name,
                asked(name),
                text,
                lambda said, _, r=RUNS[run], c=COMPARES[compare], e=int(answer): _judge(said, r, c, e),
                "L12",
            )  # fmt: skip
        )
    return made
