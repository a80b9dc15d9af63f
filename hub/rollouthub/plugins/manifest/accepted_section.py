"""`[accepted]`: the tasks of each split that the environment offers, where it does not offer all of them."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

from rollouthub.plugins.manifest.tasks_section import Split, from_text
from rollouthub.values import Frozen


class AcceptedTasks(Frozen, defer_build=True):
    """`[accepted.SPLIT]`: the tasks of one split that are offered; splits without a list are not."""

    file: str = Field(min_length=1, max_length=400)
    """A JSONL file beside env.toml with each task's `id` and the digest of its `prompt`, which must be the same."""
    seed: int = 0
    """The seed by which the tasks were made. A run's own seed makes no other tasks."""


Accepted = Mapping[
    Split, Annotated[AcceptedTasks, BeforeValidator(from_text, json_schema_input_type=str | AcceptedTasks)]
]
"""Split → its list; a plain string stands for a `file`."""
