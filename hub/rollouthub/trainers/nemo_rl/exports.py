"""Data sets for NeMo-RL and NeMo Gym: tasks to play, prompts to answer, and finished rollouts to verify again."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_types import Tool

from rollouthub.export import NotTrainable, TaskReference
from rollouthub.export.task_rows import COLUMN, prompt_messages, write_rows
from rollouthub.models.response_items import tool_params
from rollouthub.rollout import Rollout
from rollouthub.task import Public
from rollouthub.trainers.nemo_rl.results import AGENT, gym_result
from rollouthub.trainers.pictures.shown_pictures import shows_media


def gym_rows(
    tasks: Iterable[Public], environment: str, split: str, *, tools: Sequence[Tool] = (), agent: str = AGENT
) -> Iterator[dict[str, Any]]:
    """Tasks as rows of a NeMo Gym data set, which `HubGym` plays. Rows hold only the public part of a task."""
    params = tool_params(tools)
    for task in tasks:
        yield {
            "responses_create_params": {
                "input": [{"type": "message", **message} for message in prompt_messages(task)],
                "tools": params,
            },
            "agent_ref": {"type": "responses_api_agents", "name": agent},
            COLUMN: str(TaskReference(environment, split, task.id)),
        }


def write_gym_data(
    path: Path | str,
    tasks: Iterable[Public],
    environment: str,
    split: str,
    *,
    tools: Sequence[Tool] = (),
    agent: str = AGENT,
) -> int:
    """Write `gym_rows` as JSON lines, for `data.train.data_path`. Returns the number of rows."""
    return write_rows(path, gym_rows(tasks, environment, split, tools=tools, agent=agent))


def write_prompts(path: Path | str, tasks: Iterable[Public], environment: str, split: str) -> int:
    """Write prompts for `HubEnvironment` as JSON lines of `input` and `output`. Returns the number of rows.

    `output` is the task's name: NeMo-RL passes this field, meant for a reference answer, on to the environment.
    """
    return write_rows(
        path,
        (
            {
                "input": "\n\n".join(message["content"] for message in prompt_messages(task)),
                "output": str(TaskReference(environment, split, task.id)),
            }
            for task in tasks
        ),
    )


@dataclass
class Exported:
    """The counts that `write_gym_results` returns."""

    written: int = 0
    refused: dict[str, int] = field(default_factory=dict[str, int])
    """How many rollouts were left out because they must not be trained on, or show pictures, by reason."""


def write_gym_results(
    results: Path | str, rollouts: Iterable[Rollout], *, tools: Mapping[str, Sequence[Tool]] | None = None
) -> Exported:
    """Write finished rollouts as NeMo Gym's files: one line for each result, and a second file with the inputs.

    `results` is the file of results; `STEM_materialized_inputs.jsonl` beside it holds the inputs. Two indices join the
    files: the task's and the sample's. `tools` maps an environment's name to its tools, where they are known.
    """
    path = Path(results)
    exported = Exported()
    tasks: dict[tuple[str, str, str], int] = {}
    samples: dict[int, int] = {}
    inputs = path.with_name(f"{path.stem}_materialized_inputs.jsonl")
    with path.open("w") as lines, inputs.open("w") as asked:
        for rollout in rollouts:
            known = (tools or {}).get(rollout.environment.name, ())
            if shows_media(rollout):
                exported.refused["shows pictures"] = exported.refused.get("shows pictures", 0) + 1
                continue
            try:
                row = gym_result(rollout, tools=known)
            except NotTrainable as error:
                name = error.refused.refusal.value
                exported.refused[name] = exported.refused.get(name, 0) + 1
                continue
            key = rollout.environment.name, rollout.task.split, rollout.task.id
            place = tasks.setdefault(key, len(tasks))
            row["_ng_task_index"], row["_ng_rollout_index"] = place, samples.get(place, 0)
            samples[place] = samples.get(place, 0) + 1
            asking = {name: row[name] for name in _OF_THE_INPUT}
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            asked.write(json.dumps(asking, ensure_ascii=False) + "\n")
            exported.written += 1
    return exported


_OF_THE_INPUT = ("responses_create_params", "agent_ref", COLUMN, "_ng_task_index", "_ng_rollout_index")
