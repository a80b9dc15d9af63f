"""NeMo Gym's rollout files: one line per rollout with request, response and reward, as NeMo Gym's own runs write them.

`hub score` reads these files, and so does `gym eval reverify`. Rows with token ids are made by
`rollouthub.trainers.nemo_rl`.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from rollouthub.export.conversation import has_engine_ids, messages_of
from rollouthub.export.formats.chosen import chosen_of
from rollouthub.export.formats.conversations import OTHER_MEDIA, WordRows, words_of
from rollouthub.export.formats.data_columns import IDENTITY, Columns, Row, identity
from rollouthub.export.left_out import LeftOut
from rollouthub.export.recipe import Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.export.task_reference import TaskReference
from rollouthub.export.task_rows import COLUMN
from rollouthub.models.response_items import input_items
from rollouthub.rollout import Rollout

LINE = "rollout"


class NemoGymRollouts(WordRows):
    """One line per rollout."""

    options = frozenset({"best", "threshold"})
    line_column = LINE

    def columns(self, recipe: Recipe, has_images: bool) -> Columns:
        """The columns of a table; a line of JSON holds only the rollout."""
        return [(LINE, "json"), ("rollout_id", "text"), *IDENTITY, ("sample", "small"), ("reward", "real")]

    def rows(self, group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> Iterator[Row]:
        """The rows of a group."""
        for rollout in chosen_of(group, recipe, left_out):
            words = words_of(rollout, group, recipe, left_out, kinds=("image/", "application/", "text/"))
            if words is None:
                continue
            asked = list(words.chain[0].messages)
            messages = messages_of(words.chain)
            tools = [_function(tool) for tool in json.loads(words.tools or "[]")]
            try:
                bytes_of = _bytes_of(group)
                heard, said = input_items(asked, bytes_of), input_items(messages[len(asked) :], bytes_of)
            except OSError as error:
                left_out.add(OTHER_MEDIA, rollout.rollout_id, f"the file of a picture cannot be read: {error}")
                continue
            yield {
                LINE: _line(rollout, heard, said, tools),
                "rollout_id": rollout.rollout_id,
                **identity(rollout, token_exact=has_engine_ids(words.chain)),
                "sample": rollout.sample,
                "reward": rollout.reward,
            }


def _bytes_of(group: ScoredGroup) -> Callable[[str], bytes]:
    return lambda digest: group.source.media(digest).read_bytes()


def _line(rollout: Rollout, asked: Any, answered: Any, tools: Any) -> dict[str, Any]:
    assert rollout.score is not None
    components = {name: part.value * part.weight for name, part in rollout.score.components.items()}
    return {
        "responses_create_params": {"input": asked, "tools": tools},
        "response": {
            "id": f"resp-{rollout.rollout_id}",
            "object": "response",
            "created_at": rollout.started_at,
            "model": rollout.model or "policy",
            "status": "completed",
            "output": answered,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": tools,
        },
        "reward": rollout.score.reward,
        **({"reward_components": components} if components else {}),
        "_ng_rollout_index": rollout.sample,
        "agent_ref": {"type": "responses_api_agents", "name": rollout.agent.name},
        COLUMN: str(TaskReference.of(rollout)),
    }


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    """A chat tool in the form of the Responses API."""
    return {"type": "function", **tool["function"], "strict": False}
