"""The process that makes tasks and scores: `python -m rollouthub_servers.reasoning_gym.worker`, one JSON line in, one
out.

The library stays out of the hub: it takes a second to load, some of its generators follow the order of Python's hashes
(fixed here by PYTHONHASHSEED) or the global random numbers, and some of its scorers evaluate the answer. Tasks are
made here; every answer is scored in a child of its own, so that none can change what the next one is scored by.
"""

import contextlib
import copy
import gc
import json
import os
import random
import resource
import signal
import traceback
from collections.abc import Generator
from functools import lru_cache
from math import isfinite
from typing import Any, NoReturn, cast

import numpy
from reasoning_gym import factory  # pyright: ignore[reportMissingTypeStubs]

from rollouthub.errors import describe
from rollouthub_servers.reasoning_gym.guard import make_guard

_factory = cast(Any, factory)
_guard = make_guard()
MEMORY_BYTES = 4 << 30
"""Address space of a child, the library's own included."""
NONSENSE = "§ this is no answer §"
SHOWN = 300
_EXAMPLES = ("example_correct_answer", "example_answer", "possible_answer")
"""Where a generator that takes many answers keeps one."""


def main() -> None:
    """Serve until stdin ends: with the hub, however it ended."""
    replies, requests = os.dup(1), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)  # the library prints
    gc.freeze()  # what every child shares is not copied by looking at it
    for line in requests:
        request = json.loads(line)
        try:
            reply = _HANDLERS[request.pop("do")](**request)
        except Exception as error:
            traceback.print_exc()
            reply = {"refused": describe(error)[:SHOWN]}
        _write(replies, json.dumps(reply).encode() + b"\n")


def _splits() -> dict[str, Any]:
    return {"splits": sorted(_factory.DATASETS)}


def _tasks(recipe: str, start: int, count: int) -> dict[str, Any]:
    dataset = _dataset(recipe)
    if start == 0:
        _refuse_what_takes_anything(recipe)
    made: list[dict[str, Any]] = []
    for index in range(start, min(start + count, len(dataset))):
        try:
            entry = _entry(recipe, index)
            made.append({"question": str(entry["question"]), "reference": _reference(recipe, index)})
        except Exception as error:
            made.append({"bad": describe(error)[:SHOWN]})
    return {"tasks": made, "done": start + count >= len(dataset)}


def _score(recipe: str, index: int, answer: str, cpu_seconds: float) -> dict[str, Any]:
    _entry(recipe, index)  # in this process, so that the next child has it, too
    reply = _in_child(recipe, index, answer, cpu_seconds)
    if "died" in reply or "raised" in reply:
        reference = _reference(recipe, index)
        if reference is not None and "score" not in (other := _in_child(recipe, index, reference, cpu_seconds)):
            return {"broken": f"its scorer fails on the reference answer, too: {other}"}
    return reply


_HANDLERS = {"splits": _splits, "tasks": _tasks, "score": _score}


@lru_cache(maxsize=8)
def _dataset(recipe: str) -> Any:
    given = json.loads(recipe)
    with _own_randomness(recipe):
        return _factory.create_dataset(given["generator"], seed=given["seed"], size=given["size"], **given["options"])


@lru_cache(maxsize=512)
def _entry(recipe: str, index: int) -> dict[str, Any]:
    with _own_randomness(f"{recipe}/{index}"):
        return _dataset(recipe)[index]


@lru_cache(maxsize=512)
def _reference(recipe: str, index: int) -> str | None:
    """An answer that is right; None where the generator gives none."""
    entry = _entry(recipe, index)
    if entry["answer"] is not None:
        return str(entry["answer"])
    for name in _EXAMPLES:
        example = entry["metadata"].get(name)
        if example is not None:
            return example if isinstance(example, str) else json.dumps(example)
    return None


def _refuse_what_takes_anything(recipe: str) -> None:
    """A scorer that gives nonsense full marks scores nothing."""
    try:
        score = _dataset(recipe).score_answer(NONSENSE, copy.deepcopy(_entry(recipe, 0)))
    except Exception:
        return  # it does not like nonsense, and rightly
    if score >= 1.0:
        raise ValueError("its scorer in this version of reasoning-gym gives any answer full marks")


@contextlib.contextmanager
def _own_randomness(key: str) -> Generator[None]:
    """For generators that draw from the global streams: the same numbers for the same task."""
    random.seed(key)
    numpy.random.seed(random.getrandbits(32))
    yield


def _in_child(recipe: str, index: int, answer: str, cpu_seconds: float) -> dict[str, Any]:
    """Score in a child that a signal ends, which no C code can hold off, when it has used up its CPU time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_child(recipe, index, answer, cpu_seconds, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return json.loads(said) if code == 0 else {"died": code}


def _be_child(recipe: str, index: int, answer: str, cpu_seconds: float, writing: int) -> NoReturn:
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        _guard()
        entry = copy.deepcopy(_entry(recipe, index))
        try:
            score = float(_dataset(recipe).score_answer(answer, entry))
            reply = {"score": score} if isfinite(score) else {"raised": f"the score {score}"}
        except (Exception, RecursionError, MemoryError) as error:
            reply = {"raised": describe(error)[:SHOWN]}
        _write(writing, json.dumps(reply).encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


if __name__ == "__main__":
    main()
