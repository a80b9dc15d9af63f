"""`TrainerAdapter`: describes the hub's integration with one training system, without importing the system."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from rollouthub.plugins.entry_points import TRAINER_ADAPTERS, plugins
from rollouthub.plugins.lookup import find_plugin
from rollouthub.rollout import Rollout


@runtime_checkable
class TrainerAdapter(Protocol):
    """Describes the integration with one training system. Its module can be imported where the system is not
    installed.
    """

    @property
    def system(self) -> str:
        """The system's name, as its authors write it."""
        ...

    @property
    def packages(self) -> Mapping[str, str | None]:
        """The system's import packages, each with the name that pip installs; None if the system is installed from
        its sources.
        """
        ...

    @property
    def tested_with(self) -> str:
        """The version or commit that the adapter was tested with, as its page states; empty if it was not tested."""
        ...

    @property
    def entries(self) -> tuple[str, ...]:
        """The names (`module.attribute`) to put into the system's configuration or to import in a training script."""
        ...

    @property
    def page(self) -> str:
        """The adapter's documentation: a path in the repository, or a URL."""
        ...


@runtime_checkable
class ConvertingAdapter(TrainerAdapter, Protocol):
    """An adapter that can also convert finished rollouts to the system's own records."""

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert a group to the system's records, with token ids as the engine gave them; rollouts that must not be
        trained on are masked or refused.

        Raises:
            HubError: no rollout of the group may be trained on.
            ModuleNotFoundError: a class of the system is needed, and the system is not installed.
        """
        ...


def trainer_adapters() -> Iterator[tuple[str, TrainerAdapter]]:
    """Every adapter registered in this installation, with its name.

    Raises:
        ConfigError: an adapter cannot be loaded, or does not follow the protocol.
    """
    for name in plugins(TRAINER_ADAPTERS):
        yield name, find_plugin(TRAINER_ADAPTERS, "trainer adapter", name, TrainerAdapter)
