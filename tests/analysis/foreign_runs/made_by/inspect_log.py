"""Plays a task with inspect_ai itself, twice, as `.eval` and `.json`; run where it is: `… FOLDER`, totals on stdout."""

import json
import sys
from pathlib import Path

from inspect_ai import Task, eval, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import tool


@tool
def add():
    """A calculator."""

    async def execute(x: int, y: int) -> str:
        """Add two numbers.

        Args:
            x: the first
            y: the second
        """
        return str(x + y)

    return execute


@solver
def breaks():
    """A solver that breaks in one epoch of one sample."""

    async def solve(state, generate):
        if state.sample_id == "d" and state.epoch == 2:
            raise RuntimeError("the solver broke")
        return state

    return solve


def output(messages, tools, choice, config) -> ModelOutput:
    """A call of the tool, then what it said."""
    last = messages[-1]
    if last.role == "tool":
        said = ModelOutput.from_content("mockllm/model", f"It is {last.text}")
    elif "+" in last.text:
        x, y = last.text.split()[2].split("+")
        said = ModelOutput.for_tool_call("mockllm/model", "add", {"x": int(x), "y": int(y)})
    else:
        said = ModelOutput.from_content("mockllm/model", "no idea")
    said.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
    return said


@task
def sums() -> Task:
    """Four samples, of which two are solved."""
    samples = [
        Sample(id="a", input="What is 1+2 ?", target="3"),
        Sample(id="b", input="What is 2+2 ?", target="5"),
        Sample(id="c", input="Say it", target="yes"),
        Sample(id="d", input="What is 4+4 ?", target="8"),
    ]
    return Task(dataset=MemoryDataset(samples), solver=[breaks(), use_tools(add()), generate()], scorer=match())


def main(folder: Path) -> None:
    """Play, and say what the log says."""
    for form in ("eval", "json"):
        model = get_model("mockllm/model", custom_outputs=output)
        [log] = eval(
            sums(), model=model, epochs=2, log_format=form, log_dir=str(folder), fail_on_error=False, display="none"
        )
    scored = [sample for sample in log.samples if sample.scores]
    values = [float(sample.scores["match"].value == "C") for sample in scored]
    accuracy = log.results.scores[0].metrics["accuracy"].value
    facts = {"count": log.results.total_samples, "scored": len(scored), "mean": sum(values) / len(values)}
    sys.stdout.write(json.dumps({**facts, "task_mean": accuracy}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
