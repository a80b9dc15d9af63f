"""The worker process that makes and scores tasks: `python -m rollouthub_servers.reasoning_gym.worker`, with JSON lines.

The library is not loaded in the hub: loading takes a second, some of its generators depend on the order of Python's
hashes (fixed here by PYTHONHASHSEED) or on global random numbers, and some of its scorers evaluate the answer. Tasks
are made in this process, but each answer is scored in a child process, so that it cannot affect later scores.
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
"""Limit of a child's address space in bytes, including the library's own."""
NONSENSE = "§ this is no answer §"
SHOWN = 300
_EXAMPLES = ("example_correct_answer", "example_answer", "possible_answer")
"""Metadata keys of an example answer, for generators that accept many answers."""


def main() -> None:
    """Serve requests until stdin ends, as it does with the hub."""
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
    """A right answer; None if the generator gives none."""
    entry = _entry(recipe, index)
    if entry["answer"] is not None:
        return str(entry["answer"])
    for name in _EXAMPLES:
        example = entry["metadata"].get(name)
        if example is not None:
            return example if isinstance(example, str) else json.dumps(example)
    return None


def _refuse_what_takes_anything(recipe: str) -> None:
    """Refuse a generator whose scorer gives nonsense a full score."""
    try:
        score = _dataset(recipe).score_answer(NONSENSE, copy.deepcopy(_entry(recipe, 0)))
    except Exception:
        return  # it does not like nonsense, and rightly
    if score >= 1.0:
        raise ValueError("its scorer in this version of reasoning-gym gives any answer full marks")


@contextlib.contextmanager
def _own_randomness(key: str) -> Generator[None]:
    """Seed the global random streams by `key`, for generators that draw from them."""
    random.seed(key)
    numpy.random.seed(random.getrandbits(32))
    yield


def _in_child(recipe: str, index: int, answer: str, cpu_seconds: float) -> dict[str, Any]:
    """Score in a child process, which a signal kills when its CPU time is used up, since C code cannot block it."""
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
