"""The parts, by their worth, those that share a server together: what the minutes do not reach comes last."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.gpu import drift, learning, load, sleeping, trl_async, update, verl_step
from tests.gpu.lab import Lab


@dataclass(frozen=True)
class Part:
    """One measurement, with its time limits in seconds."""

    name: str
    about: str
    measure: Callable[[Lab], Awaitable[None]]
    most_seconds: float
    """After which it is ended; what it found by then counts."""
    least_seconds: float
    """It is not begun with less."""
    asks_given: bool = False
    """Whether it is about the model of `--model`."""


PARTS = (
    Part("load", "rollouts/s, tokens/s beside a bare loop, the GPU's load", load.measure, 300, 60),
    Part("drift", "log-probabilities and ids, engine and trainer", drift.measure, 120, 30),
    Part("update", "pause, new weights, resume", update.measure, 120, 30),
    Part("sleep", "sleep and wake", sleeping.measure, 60, 20),
    Part("verl", "a step of veRL", verl_step.measure, 240, 60),
    Part("trl", "TRL's asynchronous trainer", trl_async.measure, 180, 60),
    Part("learn", "the learner end to end on `arithmetic`", learning.measure, 300, 90),
    Part("load-given", "load, of the model of --model", load.measure_given, 120, 60, asks_given=True),
    Part("drift-given", "drift, of the model of --model", drift.measure_given, 120, 30, asks_given=True),
)
