"""Step APIs: Gymnasium, TextArena and GEM, played as they are through `reset(seed)` and `step(action)`.

A task is an id of the registry and a seed. `world`, `step_driver` and a module for each library run in the foreign
process; `importer` finds out what can be played, and `environment` plays it.
"""

from rollouthub_servers.step_api.environment import SharedGame, StepConfig, StepGame

__all__ = [
    "EightPlayers",
    "FivePlayers",
    "FourPlayers",
    "OnePlayer",
    "SevenPlayers",
    "SixPlayers",
    "StepConfig",
    "ThreePlayers",
    "TwoPlayers",
]


def _players(count: int) -> tuple[str, ...]:
    return tuple(f"player_{number}" for number in range(count))


class OnePlayer(StepGame):
    """A game for one."""


class TwoPlayers(SharedGame):
    """A game for two."""

    seats = _players(2)


class ThreePlayers(SharedGame):
    """A game for three."""

    seats = _players(3)


class FourPlayers(SharedGame):
    """A game for four."""

    seats = _players(4)


class FivePlayers(SharedGame):
    """A game for five."""

    seats = _players(5)


class SixPlayers(SharedGame):
    """A game for six."""

    seats = _players(6)


class SevenPlayers(SharedGame):
    """A game for seven."""

    seats = _players(7)


class EightPlayers(SharedGame):
    """A game for eight."""

    seats = _players(8)
