"""Who plays which seat: players that the request names, players of earlier runs, and a check for seats without a
player.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollouthub.engine.agent_kind import needs_model
from rollouthub.engine.foreign_run import refuse_named_servers
from rollouthub.engine.policy_model import policy_model
from rollouthub.engine.run_request import RunRequest, request_from_file
from rollouthub.engine.seat_config import PoolMember, SeatConfig
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.generation import Sampling
from rollouthub.models.config import ModelConfig
from rollouthub.plugins.agents import find_agent
from rollouthub.plugins.entry_points import AGENTS, plugins
from rollouthub.protocols import Agent, AttendedAgent, EnvironmentInfo, ExposedAgent, HeldAgent


@dataclass(frozen=True)
class PlannedOpponent:
    """A model of a pool."""

    model: ModelConfig
    version: int | None
    """The policy version that the model is; None if it has none."""


@dataclass(frozen=True)
class PlannedSeat:
    """The player planned for one seat."""

    agent: Agent
    agent_name: str
    model: ModelConfig | None
    """The seat's own model; None if the agent asks the run's model, or none."""
    sampling: Sampling
    pool: tuple[PlannedOpponent, ...] = ()
    """The models of which one is drawn for each group; empty if the seat has one player."""

    @property
    def models(self) -> tuple[ModelConfig, ...]:
        """All models that may play the seat, except the run's own."""
        own = () if self.model is None else (self.model,)
        return (*own, *(opponent.model for opponent in self.pool))


def planned_seat(seat: str, config: SeatConfig, request: RunRequest, default: str, has_model: bool) -> PlannedSeat:
    """The player of a seat: its own agent, else the request's, else the agent `default`.

    Raises:
        ConfigError: the agent needs a model, and there is none.
    """
    name = config.agent or request.agent or default
    agent = find_agent(name, config.agent_set or (request.agent_set if config.agent is None else {}))
    if needs_model(agent) and config.model is None and not config.pool and not has_model:
        raise ConfigError(f"agent {name!r} of seat {seat!r} needs a model: --seat {seat}=MODEL@{name}, or -m for all")
    pool = tuple(map(_planned_opponent, config.pool))
    return PlannedSeat(agent, name, config.model, config.sampling.over(request.sampling), pool)


def _planned_opponent(member: PoolMember) -> PlannedOpponent:
    assert member.model is not None, "`with_earlier_players` has replaced runs by their models"
    return PlannedOpponent(member.model, member.version)


def check_seats(request: RunRequest, environment: str, seats: Sequence[str], *, is_played: bool = False) -> None:
    """Refuse players for seats that an environment does not have, and seats that no one would play.

    `is_played` says whether seats without a player have one that the request does not name.

    Raises:
        ConfigError: names the seat, and says what to do.
        UnknownNameError: the environment has no such seat.
    """
    for seat in request.seats:
        if seat not in seats:
            raise UnknownNameError(f"seat of {environment}", seat, seats)
    asks = request.agent is None or needs_model(find_agent(request.agent, request.agent_set))
    if request.seats and request.model is None and not is_played and asks:
        for seat in seats:
            if seat not in request.seats:
                raise ConfigError(
                    f"seat {seat!r} of {environment} has no player: give --seat {seat}=MODEL, or -m for all others"
                )


def with_earlier_players(request: RunRequest) -> RunRequest:
    """The request with `run:DIRECTORY` replaced by the player that the earlier run recorded.

    Raises:
        ConfigError: there is no such run, or it had several players or no model.
    """
    found = {
        seat: _with_earlier_members(seat, config)
        if config.run is None
        else _earlier_player(seat, config, Path(config.run))
        for seat, config in request.seats.items()
    }
    return request.model_copy(update={"seats": found}) if found else request


def _with_earlier_members(seat: str, config: SeatConfig) -> SeatConfig:
    """The seat with the models of earlier runs in its pool.

    Raises:
        ConfigError: a member names a run that had no model.
    """
    members: list[PoolMember] = []
    for member in config.pool:
        model = member.model
        if model is None:
            assert member.run is not None, "a member of a pool names a model or a run"
            model = _earlier_model(seat, _earlier_request(seat, Path(member.run)), Path(member.run))
        members.append(PoolMember(model=model, version=member.version))
    return config.model_copy(update={"pool": tuple(members)}) if members else config


def _earlier_request(seat: str, directory: Path) -> RunRequest:
    """The request of an earlier run, whose policy was its own model; seats that had other players do not matter."""
    earlier = RunRequest.model_validate(request_from_file(directory / "resolved.json"))
    if earlier.model is None:
        reason = "has a player for each seat" if earlier.seats else "was played without a model"
        raise ConfigError(f"seat {seat!r}: the run {str(directory)!r} {reason}; name the model itself")
    return earlier


def _earlier_model(seat: str, earlier: RunRequest, directory: Path) -> ModelConfig:
    """The model of an earlier run, unless a stranger's run names a server elsewhere."""
    model = policy_model(earlier)
    assert model is not None, f"the run that plays seat {seat!r} has a model"
    refuse_named_servers([model], directory, "name model and base_url in the [seats] of a --config file")
    return model


def _refuse_named_program(seat: str, earlier: RunRequest, directory: Path) -> None:
    """Refuse an agent that would start what the settings of an earlier run name: a stranger may have made the run."""
    if earlier.agent is None or not earlier.agent_set:
        return
    if isinstance(find_agent(earlier.agent, earlier.agent_set), HeldAgent | ExposedAgent):
        raise ConfigError(
            f"seat {seat!r}: the run {str(directory)!r} was played by the agent {earlier.agent!r}, whose settings name "
            "the program that it would start; name agent and agent_set yourself in the [seats] of a --config file"
        )


def _earlier_player(seat: str, config: SeatConfig, directory: Path) -> SeatConfig:
    earlier = _earlier_request(seat, directory)
    model = config.model or _earlier_model(seat, earlier, directory)
    if config.agent is None and earlier.agent is not None and earlier.agent not in plugins(AGENTS):
        raise ConfigError(
            f"seat {seat!r}: the run {str(directory)!r} was played by {earlier.agent!r}, which is no installed agent; "
            f"name the agent yourself: --seat {seat}=MODEL@AGENT"
        )
    if config.agent is None and not config.agent_set:
        _refuse_named_program(seat, earlier, directory)
    return SeatConfig(
        model=model,
        agent=config.agent or earlier.agent,
        agent_set=config.agent_set or (earlier.agent_set if config.agent is None else {}),
        sampling=config.sampling.over(earlier.sampling),
    )


def check_attended(info: EnvironmentInfo, players: Mapping[str, Agent]) -> None:
    """Refuse to have a person at one terminal play several seats that wait for each other: that would never end.

    Raises:
        ConfigError: names the seats that need another player.
    """
    attended = [seat for seat, player in players.items() if isinstance(player, AttendedAgent)]
    if info.takes_turns and len(attended) > 1:
        named = " ".join(f"--seat {seat}=@oracle" for seat in attended[1:])
        raise ConfigError(
            f"{info.name} has several seats, and a person plays one; say who plays the others, a MODEL or an "
            f"@AGENT: {named}"
        )
