"""`External`: an agent that runs a third-party program once per episode."""

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from pydantic import JsonValue

from rollouthub import AgentError, Message, Seat, Stop
from rollouthub.errors import SandboxError, SandboxOverrun
from rollouthub.event_loop import background_tasks
from rollouthub.hosting.local.shell_access import HousedSeat
from rollouthub.protocols import SeatAddress
from rollouthub.sandbox import CommandNotStarted, Finished, SandboxFileError
from rollouthub.text import printable
from rollouthub.tools import told_task
from rollouthub_agents.external.config import ExternalConfig
from rollouthub_agents.external.preparation import open_places
from rollouthub_agents.external.program_place import Place, Places
from rollouthub_agents.external.recipe import Recipe, make_recipe

logger = logging.getLogger(__name__)

_LAST_WORDS = 2000
"""Most characters of a failed program's output that its error message quotes."""


class External:
    """An agent that gives a program an episode's two URLs. `held` prepares the program and its sandbox for a run."""

    name = "external"
    version = "1"
    config_type = ExternalConfig

    def __init__(self, config: ExternalConfig) -> None:
        """Compute the command, files and variables from the configuration.

        Raises:
            UsageError: a profile, a file or a variable does not exist.
        """
        self._config = config
        self._recipe = make_recipe(config)
        self.config: dict[str, JsonValue] = {**config.model_dump(mode="json"), "sandbox": config.kind}

    @property
    def needs_model(self) -> bool:
        """Whether the program needs a model of the run."""
        return self._recipe.needs_model

    async def play(self, seat: Seat) -> Stop:
        """Always fail: the program needs an episode's URLs, which only `play_exposed` of a prepared agent gets.

        Raises:
            AgentError: always.
        """
        raise AgentError("an external program plays over a seat's two URLs, and was given none")

    @asynccontextmanager
    async def held(self) -> AsyncGenerator["ProgramPlayer"]:
        """Prepare the program and its sandbox; yields the agent that plays.

        Raises:
            ConfigError: the program, its image or its isolation is not available.
        """
        async with open_places(self._config, self._recipe) as (places, recipe):
            yield ProgramPlayer(self._config, recipe, places)


@dataclass(frozen=True, slots=True)
class ProgramPlayer:
    """An external agent whose program and sandbox are prepared."""

    settings: ExternalConfig
    recipe: Recipe
    places: Places

    @property
    def name(self) -> str:
        """The agent's registered name."""
        return External.name

    @property
    def version(self) -> str:
        """The version of the external agent, not of its program."""
        return External.version

    @property
    def config(self) -> dict[str, JsonValue]:
        """The settings, with the kind of sandbox that is used."""
        return {**self.settings.model_dump(mode="json"), "sandbox": self.settings.kind}

    async def play(self, seat: Seat) -> Stop:
        """Always fail: the program needs an episode's URLs, which only `play_exposed` gets.

        Raises:
            AgentError: always.
        """
        raise AgentError("an external program plays over a seat's two URLs, and was given none")

    async def play_exposed(self, seat: Seat, address: SeatAddress) -> Stop:
        """Run the program until it ends, or `grace_seconds` after the episode. The two servers record its calls.

        Raises:
            AgentError: the program could not be started, failed, or took too long.
            SandboxError: its sandbox failed.
        """
        if address.llm_url is None and self.recipe.needs_model:
            raise AgentError(f"{self.recipe.program!r} asks a model, and the run has none; name one with -m")
        async with self.places.open() as place:
            if isinstance(seat, HousedSeat):
                seat.home = place.sandbox
            try:
                done = await self._run(place, seat.messages, address)
            except CommandNotStarted as error:
                raise AgentError(_shown(str(error), address)) from None
            except SandboxError as error:  # it may name the command, and that the token
                kind = SandboxOverrun if isinstance(error, SandboxOverrun) else SandboxError
                raise kind(_shown(str(error), address), retryable=error.retryable) from None
            except SandboxFileError as error:
                raise SandboxError(f"the agent's place could not be made ready: {error}") from error
        if done is None or seat.is_sealed:
            return Stop.FINISHED  # the episode was over before the program was: how it ended changes nothing
        logger.debug("the program wrote %r and %r", *(_shown(out.text, address) for out in (done.stdout, done.stderr)))
        if problem := _problem(done):
            said = _shown(done.stderr.text.strip() or done.stdout.text.strip(), address)[-_LAST_WORDS:]
            # The last line first: it says what went wrong, and is what is left where a message is cut.
            *before, last = said.splitlines() or [""]
            whole = f"\nits last words:\n{said}" if before else ""
            raise AgentError(f"the program {problem}" + (f": {last.strip()}{whole}" if last else ""))
        return Stop.FINISHED

    async def _run(self, place: Place, messages: Sequence[Message], address: SeatAddress) -> Finished | None:
        """Run the program; returns how it ended, or None if it was ended after the episode."""
        prompt = told_task(messages)
        inside = await place.reach(address)
        await place.write(self.recipe.home_files(inside, prompt, place.home), place.home)
        await place.write(self.recipe.files, place.workdir)
        command = self.recipe.words(inside, prompt, place.home)
        environment = self.recipe.environment(inside, prompt, place.home)
        return await self._watched(place, command, environment, address)

    async def _watched(
        self, place: Place, command: Sequence[str], environment: Mapping[str, str], address: SeatAddress
    ) -> Finished | None:
        async with background_tasks() as tasks:

            async def end_with_episode() -> None:
                await address.over()
                await anyio.sleep(self.settings.grace_seconds)
                tasks.cancel_scope.cancel()

            tasks.start_soon(end_with_episode)
            return await place.run(command, environment, self.settings.timeout_seconds)
        return None  # its time was over


def _problem(done: Finished) -> str | None:
    """Describe why a program's end is a failure; None if it is not."""
    if done.timed_out:
        return f"had not ended after {done.seconds:.0f} s"
    if done.out_of_memory:
        return "was killed for want of memory"
    if done.exit_status:
        how = f"exit status {done.exit_status}" if done.exit_status > 0 else f"signal {-done.exit_status}"
        return f"ended with {how}"
    return None


def _shown(text: str, address: SeatAddress) -> str:
    """A program's output as it may be recorded: without control characters and without the episode's token."""
    return printable(text).replace(address.api_key, "[token]")
