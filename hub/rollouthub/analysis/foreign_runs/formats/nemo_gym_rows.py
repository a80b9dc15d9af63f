"""NeMo Gym's rollouts (nemo-gym 0.7): JSONL rows with a Responses request, the response and a reward."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.entries import Samples, from_lines, small_object
from rollouthub.analysis.foreign_runs.foreign_messages import as_count, as_number, as_object, as_text, tool_definitions
from rollouthub.analysis.foreign_runs.foreign_record import ForeignEpisode, moment, prompt_and_answers
from rollouthub.analysis.foreign_runs.json_pieces import first_object
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun, StatedTotals
from rollouthub.messages import Message, media_of
from rollouthub.models.responses_rollout import read_items, row_id
from rollouthub.rollout import Outcome, Usage

_TOOL = "NeMo Gym"
_AGENT = re.compile(r"_(?:simple_)?agent$")


class NemoGymRows:
    """A row is a rollout; equal `_ng_task_index`, else equal inputs, are samples of one task."""

    name = "nemo_gym"

    def recognises(self, path: Path) -> bool:
        """Whether the first line has a request and a response."""
        first = first_object(path)
        return isinstance(first.get("responses_create_params"), dict) and isinstance(first.get("response"), dict)

    def read(self, path: Path) -> ForeignRun:
        """Open a file of rollouts."""
        first = first_object(path)
        rows = _NemoRows(_environment(first, path))
        stated = _stated(small_object(path.with_name(f"{path.stem}_aggregate_metrics.json")))
        facts = ForeignFacts(
            tool=_TOOL,
            environments=(rows.environment,),
            model=as_text(as_object(first.get("response")).get("model")),
            agent=as_text(as_object(first.get("agent_ref")).get("name")),
            totals=stated,
            missing=(
                "which turn used how many tokens: the usage is the whole rollout's",
                "whether a rollout passed: there is a reward only",
                "token ids and logprobs",
                "why a rollout failed, if it did: failed ones are in another file",
            ),
            length=path.stat().st_size,
        )
        return ForeignRun(facts, from_lines(path, rows.episode, _TOOL))


def _environment(row: dict[str, Any], path: Path) -> str:
    name = as_text(as_object(row.get("agent_ref")).get("name"))
    if name:
        return _AGENT.sub("", name)
    return path.parent.parent.name if path.parent.name == "data" and path.parent.parent.name else path.stem


def _stated(metrics: dict[str, Any]) -> StatedTotals:
    """Of the aggregate metrics that the tool writes beside its rollouts, the numbers as they are."""
    flat = {name: value for name, value in metrics.items() if as_number(value) is not None}
    return StatedTotals(others=flat)


class _NemoRows:
    def __init__(self, environment: str) -> None:
        self.environment, self._samples = environment, Samples()

    def episode(self, row: dict[str, Any]) -> ForeignEpisode:
        asked, answered = as_object(row.get("responses_create_params")), as_object(row.get("response"))
        if not isinstance(answered.get("output"), list) or "input" not in asked:
            raise ValueError("it has no `input` of a request, or no `output` of a response")
        prompt, answers = read_items(asked["input"]), read_items(answered["output"])
        index, sample = row.get("_ng_task_index"), row.get("_ng_rollout_index")
        key = row_id(asked["input"])
        task_id = str(index) if isinstance(index, int) else key
        said = prompt_and_answers(prompt, answers)
        sampled = [each for each in said if each.is_sampled]
        used = as_object(answered.get("usage"))
        if sampled:
            sampled[-1].turn = {
                "usage": Usage(
                    prompt_tokens=as_count(used.get("input_tokens", used.get("prompt_tokens"))),
                    output_tokens=as_count(used.get("output_tokens", used.get("completion_tokens"))),
                    cached_tokens=as_count(as_object(used.get("input_tokens_details")).get("cached_tokens")),
                    reasoning_tokens=as_count(as_object(used.get("output_tokens_details")).get("reasoning_tokens")),
                )
            }
        number = sample if isinstance(sample, int) and 0 <= sample < 2**31 else self._samples.next(task_id)
        components = as_object(row.get("reward_components"))
        problem = as_object(answered.get("error"))
        return ForeignEpisode(
            environment=self.environment,
            task_id=task_id,
            task=key,
            said=said,
            sample=number,
            attempt=self._samples.attempt(task_id, number),
            agent=as_text(as_object(row.get("agent_ref")).get("name")) or "unknown",
            model=as_text(answered.get("model")),
            outcome=Outcome.MODEL_FAILED if problem and row.get("reward") is None else Outcome.SCORED,
            reward=row.get("reward"),
            score={"metrics": {name: value for name, value in components.items() if as_number(value) is not None}},
            error=as_text(problem.get("message")) if row.get("reward") is None else None,
            error_type=as_text(problem.get("code")) or "Error",
            started_at=moment(answered.get("created_at")) or 0.0,
            tools=tool_definitions(asked.get("tools")),
            media=_media(prompt, answers),
        )


def _media(*conversations: Sequence[Message]) -> dict[str, bytes]:
    """Digest → bytes of the media that messages hold."""
    found: dict[str, bytes] = {}
    for conversation in conversations:
        for part in media_of(conversation):
            content = part.read()
            if content is not None:
                found[part.digest] = content
    return found
