"""`--replay`: verifiers and tool calls once more, in the environments that are here and trusted."""

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from rollouthub.errors import HubError
from rollouthub.store import RunReader, open_run
from rollouthub.text import one_line
from rollouthub_registry.receipt.claim import Claim, counted
from rollouthub_registry.receipt.model_files import ModelFolder
from rollouthub_registry.receipt.reference_claims import reference_claims
from rollouthub_registry.receipt.tool_replay import replay_tools
from rollouthub_registry.receipt.verifier_again import verify_again
from rollouthub_registry.receipt.weight_claims import logprob_claims
from rollouthub_registry.receipt.worlds import Chosen, ReplayOptions, Worlds, choose


@dataclass
class Replay:
    """What a replay showed."""

    claims: list[Claim] = field(default_factory=list[Claim])
    seconds: float = 0.0


async def replay_run(directory: Path, options: ReplayOptions, note: Callable[[str], None]) -> Replay:
    """Run verifiers and tool calls again, and compare; what cannot be run here is a claim, and no error.

    `note` is told how far it is.
    """
    replay = Replay()
    began = time.perf_counter()
    with open_run(directory) as reader:
        try:
            async for claim in _claims(Worlds(reader, options), reader, note):
                replay.claims.append(claim)
        except HubError as error:
            said = f"verifiers and tool calls were not run again: {one_line(str(error))}"
            replay.claims.append(Claim("replay", "not_provable", said))
    replay.seconds = time.perf_counter() - began
    return replay


def add_logprobs(
    replay: Replay, directory: Path, weights: ModelFolder, model: str, limit: int | None, note: Callable[[str], None]
) -> None:
    """Add to a replay whether a model's answers have the log-probabilities that the weights in a folder give them.

    Blocks while it computes.
    """
    began = time.perf_counter()
    with open_run(directory) as reader:
        replay.claims += logprob_claims(reader, weights, model, limit, note)
    replay.seconds += time.perf_counter() - began


async def _claims(worlds: Worlds, reader: RunReader, note: Callable[[str], None]) -> AsyncGenerator[Claim]:
    if worlds.asks_servers:
        said = (
            "some of the run's environments ask models at servers; those are not asked, and what needs them is left out"
        )
        yield Claim("replay", "not_provable", said)
    note("opening the environments")
    async with worlds.open(worlds.plan()) as opened:
        environments = worlds.by_name(opened)
        chosen = choose(reader, environments, worlds.options.limit)
        if chosen.other_code:
            said = (
                f"{counted(chosen.other_code, 'rollout')} are of another version of their environment than the one here"
            )
            yield Claim("replay", "not_provable", said, chosen.other_code)
        if not chosen.ids:
            return
        async for claim in verify_again(
            worlds, environments, reader, chosen, lambda done: note(f"verifiers again: {done:,}")
        ):
            yield claim
        note("comparing with the reference solutions")
        async for claim in reference_claims(worlds, environments, reader, chosen):
            yield claim
        note("tool calls again")
        async for claim in replay_tools(
            worlds, environments, reader, chosen, lambda done: note(f"tool calls again: {done:,}")
        ):
            yield claim
    note("counting the tasks")
    async for claim in _planned_claims(worlds, reader, chosen):
        yield claim


async def _planned_claims(worlds: Worlds, reader: RunReader, chosen: Chosen) -> AsyncGenerator[Claim]:
    """Whether the settings lead to as many rollouts as the run says were planned."""
    info = reader.info
    if info.planned is None or info.status != "finished" or chosen.other_code or "rescored" in info.resolved:
        return
    async with worlds.open(worlds.plan(chooses_as_played=True)) as opened:
        planned, bad_rows = await opened.count()
    if (planned, bad_rows) == (info.planned, info.bad_rows):
        said = f"the settings lead to {counted(planned, 'rollout')}, as the run says was planned"
        yield Claim("planned", "proven", said, planned)
    elif info.resumptions:
        said = (
            f"the settings lead to {counted(planned, 'rollout')}, and {info.planned:,} were planned when it was resumed"
        )
        yield Claim("planned", "not_provable", said, planned)
    else:
        said = (
            f"the settings lead to {counted(planned, 'rollout')}, and the run says that {info.planned:,} were planned"
        )
        yield Claim("planned", "refuted", said, planned)
