"""A task's name in a data set column: enough to find the task, without its secret part."""

import json
from dataclasses import dataclass

from rollouthub.errors import ConfigError
from rollouthub.rollout import Rollout


@dataclass(frozen=True, slots=True)
class TaskReference:
    """Names one task of one environment."""

    environment: str
    split: str
    task_id: str

    def __str__(self) -> str:
        """The text for a column: `{"environment": …, "split": …, "task_id": …}`."""
        return json.dumps(
            {"environment": self.environment, "split": self.split, "task_id": self.task_id}, ensure_ascii=False
        )

    @classmethod
    def of(cls, rollout: Rollout) -> "TaskReference":
        """The task that a rollout played."""
        return cls(rollout.environment.name, rollout.task.split, rollout.task.id)

    @classmethod
    def parse(cls, text: str) -> "TaskReference":
        """Parse a column's text.

        Raises:
            ConfigError: the text names no task.
        """
        try:
            found = json.loads(text)
            fields = {name: found[name] for name in ("environment", "split", "task_id")}
            if not all(isinstance(value, str) for value in fields.values()):
                raise ValueError("its fields are not all text")
            return cls(**fields)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(
                f"{text[:200]!r} names no task; a column of rollouthub's holds "
                '{"environment": …, "split": …, "task_id": …}'
            ) from error
