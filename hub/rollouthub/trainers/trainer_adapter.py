"""`TrainerAdapter`: what is known of the way into one training system before the system is imported."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from rollouthub.plugins.entry_points import plugins
from rollouthub.plugins.lookup import find_plugin
from rollouthub.rollout import Rollout

TRAINER_ADAPTERS = "rollouthub.trainer_adapters"
"""Name → a class, made without arguments, that follows `TrainerAdapter`."""


@runtime_checkable
class TrainerAdapter(Protocol):
    """The way into one training system. Its module is importable where the system is not installed."""

    @property
    def system(self) -> str:
        """The system's name, as its authors write it."""
        ...

    @property
    def packages(self) -> Mapping[str, str | None]:
        """The system's import packages → what pip installs, None where it is installed from its sources."""
        ...

    @property
    def tested_with(self) -> str:
        """The version or commit that tests ran with, as its page says it; empty where none did."""
        ...

    @property
    def entries(self) -> tuple[str, ...]:
        """What the system's configuration or a training script names, as `module.attribute`."""
        ...

    @property
    def page(self) -> str:
        """Its documentation: a path below the repository, or a URL."""
        ...


@runtime_checkable
class ConvertingAdapter(TrainerAdapter, Protocol):
    """An adapter that also makes the system's own records of rollouts that were collected before."""

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """A group as the system takes it: token ids as the engine gave them, what must not be learnt from by name.

        Raises:
            HubError: nothing of it may be learnt from.
            ModuleNotFoundError: a class of the system is needed, and it is not installed.
        """
        ...


def trainer_adapters() -> Iterator[tuple[str, TrainerAdapter]]:
    """Every adapter that is registered here, by name.

    Raises:
        ConfigError: one cannot be loaded, or does not follow the protocol.
    """
    for name in plugins(TRAINER_ADAPTERS):
        yield name, find_plugin(TRAINER_ADAPTERS, "trainer adapter", name, TrainerAdapter)
