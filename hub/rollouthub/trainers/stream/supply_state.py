"""What a trainer's checkpoint keeps of a supply, so that one in a new directory goes on with it."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from rollouthub.errors import ConfigError
from rollouthub.trainers.stream.ledger import BEFORE, PassRate

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31)]


class RestingTask(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A task that a curriculum leaves out."""

    environment: str
    split: str
    task_id: str
    epochs_ago: _Count
    """How many epochs ago its pass rate was measured; 0 in the present one."""
    rate: Annotated[float, msgspec.Meta(ge=0, le=1)]


class SupplyState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of a supply."""

    policy_version: _Count
    resting: list[RestingTask]

    def rates(self) -> Iterator[PassRate]:
        """The pass rates of the resting tasks, for a supply whose first epoch is the present one begun anew: a task
        that was measured in it rests from its beginning.
        """
        for task in self.resting:
            epoch = -max(1, task.epochs_ago)
            yield PassRate(task.environment, task.split, task.task_id, epoch, BEFORE, task.rate)


def read_state(given: Mapping[str, Any]) -> SupplyState:
    """Read what `Supply.state` returned.

    Raises:
        ConfigError: it is no state of a supply.
    """
    try:
        return msgspec.convert(given, SupplyState)
    except msgspec.ValidationError as error:
        raise ConfigError(f"state is none that `supply.state()` returned: {error}") from error
