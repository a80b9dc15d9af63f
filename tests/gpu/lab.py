"""`Lab`: what every part is given: the servers, how much to do on this device, and where figures go."""

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio

from tests.gpu.engines import Engines, Served
from tests.gpu.programs import run_cell
from tests.gpu.rows import Missing, Row

MADE = "made"
"""The name under which the model made here is served."""
GIVEN = "given"
"""The name under which `--model` is served."""


@dataclass(frozen=True)
class Amounts:
    """How much a device is asked to do."""

    shape: str
    """Of the model made here, one of `SHAPES` in making_cell.py."""
    context: int
    """Most tokens of a conversation."""
    levels: tuple[int, ...]
    """Numbers of episodes in flight."""
    rounds: int
    """Episodes one after the other, for each in flight."""
    answer_tokens: int
    """Tokens of an answer, under load."""
    repetitions: int
    """Times that each load is measured, hub and bare loop by turns."""
    drift_rollouts: int
    update_in_flight: int
    learning_steps: int
    learning_seconds: float
    patience: float
    """By how much the parts' time limits are longer than on a GPU."""


GPU = Amounts(
    shape="half_billion",
    context=4096,
    levels=(64, 1024, 256),
    rounds=2,
    answer_tokens=96,
    repetitions=2,
    drift_rollouts=64,
    update_in_flight=256,
    learning_steps=120,
    learning_seconds=180.0,
    patience=1.0,
)
CPU = Amounts(
    shape="tiny",
    context=4096,
    levels=(64, 256),
    rounds=4,
    answer_tokens=16,
    repetitions=3,
    drift_rollouts=16,
    update_in_flight=16,
    learning_steps=30,
    learning_seconds=420.0,
    patience=3.0,
)


def quick(amounts: Amounts) -> Amounts:
    """A little of everything, to see that it runs."""
    return replace(amounts, levels=(8,), rounds=1, repetitions=1, drift_rollouts=4, learning_steps=10, shape="tiny")


@dataclass
class Lab:
    """The parts' surroundings. Parts run one after the other."""

    engines: Engines
    amounts: Amounts
    folder: Path
    """Of logs and models; those that are there already are used again."""
    runs: Path
    """Of this time's runs and weights."""
    given: Path | None = None
    """The small trained model of `--model`."""
    say: Callable[[str], None] = lambda line: None
    rows: list[Row] = field(default_factory=list[Row])
    part: str = ""
    """The part that is measured now."""
    ends_at: float = math.inf
    """When its time is over, by anyio's clock."""
    facts: dict[str, str] = field(default_factory=dict[str, str])
    """What was measured with, by name."""

    @property
    def is_cpu(self) -> bool:
        """Whether all of it runs on CPUs."""
        return self.engines.is_cpu

    @property
    def left_seconds(self) -> float:
        """What is left of the part's time."""
        return self.ends_at - anyio.current_time()

    def add(self, row: Row) -> None:
        """Note a figure."""
        self.rows.append(row)
        self.say(f"{row.part}: {row.name}: {row.shown} {row.bar} {row.verdict} {row.note}".rstrip())

    def not_tried(self, name: str, why: str) -> None:
        """Note that a figure of this part could not be had here."""
        self.add(Row(self.part, name, "not tried", note=why))

    def needs(self, *modules: str) -> None:
        """Check that modules are installed beside the hub.

        Raises:
            Missing: one is not.
        """
        if absent := [name for name in modules if find_spec(name) is None]:
            raise Missing(f"{', '.join(absent)} not installed beside {sys.executable}")

    def needs_vllm(self, what: str) -> None:
        """Check that the engine is vLLM.

        Raises:
            Missing: it is the stand-in.
        """
        if self.engines.engine != "vllm":
            raise Missing(f"{what} needs vLLM; the stand-in for an engine has none")

    async def cell(self, module: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Run a cell of this part in a process of its own, for as long as the part may take.

        Raises:
            Missing, PartError: as `run_cell`.
        """
        # One thread for each process: on a CPU they would fight for the cores.
        variables = {"OMP_NUM_THREADS": "1"} if self.is_cpu else {}
        log = self.folder / f"{self.part}.log"
        return await run_cell(module, given, log, variables=variables)

    async def made(self, seed: int = 0) -> Path:
        """The folder of the model made here, of the weights of a seed."""
        folder = self.folder / f"{MADE}-{self.amounts.shape}-{seed}"
        done = folder / "weights.txt"
        if not done.exists():
            self.needs("torch", "transformers")
            found = await self.cell("making_cell", {"folder": str(folder), "shape": self.amounts.shape, "seed": seed})
            done.write_text(str(found["weights"]))
        self.facts["model"] = f"Llama, {int(done.read_text()) / 1e6:,.0f} M random weights, bfloat16"
        return folder

    async def serve_made(self) -> Served:
        """A server with the model made here."""
        return await self.serve(MADE, await self.made())

    async def serve_given(self) -> Served:
        """A server with the small trained model, for as many tokens as it knows places."""
        assert self.given is not None
        config: dict[str, Any] = json.loads((self.given / "config.json").read_text())
        places = config.get("max_position_embeddings")
        context = min(places, self.amounts.context) if isinstance(places, int) else self.amounts.context
        return await self.serve(GIVEN, self.given.absolute(), context=context)

    async def serve(self, name: str, folder: Path, *arguments: str, context: int | None = None) -> Served:
        """A server with the model in a folder, for conversations of at most so many tokens."""
        before = len(self.engines.starts)
        context = context or self.amounts.context
        served = await self.engines.serve(name, folder, context=context, arguments=arguments)
        if len(self.engines.starts) > before:
            self.say(f"{self.part}: {name} is served after {served.start_seconds:.0f} s")
        return served

    def sampling(self, *, tokens: int, temperature: float = 1.0) -> dict[str, Any]:
        """Settings with which every answer has as many tokens, whatever is sampled, where the engine can do so."""
        extra = {"ignore_eos": True, "tool_choice": "none"} if self.engines.engine == "vllm" else {}
        return {"max_tokens": tokens, "temperature": temperature, "extra": extra}
