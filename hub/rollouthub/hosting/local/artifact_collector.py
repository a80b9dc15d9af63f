"""Collects an episode's artifacts once, after the seal and before the verdict."""

import logging
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import anyio
from anyio import to_thread
from pydantic_core import to_json

from rollouthub.environment import Environment
from rollouthub.event_loop import call_hook
from rollouthub.sandbox import MIB, File, Sandbox, SandboxFileError
from rollouthub.score import STATE, UNKEEPABLE, KeptArtifact

logger = logging.getLogger(__name__)

MOST_BYTES = 32 * MIB
"""Most bytes of an episode's artifacts together."""


async def collect_artifacts(
    environment: Environment[Any], sandbox: Sandbox | None, seconds: float
) -> tuple[Sequence[KeptArtifact], Sequence[str]]:
    """The artifacts that an environment declares, and the reasons why some are missing.

    The agent decides which files exist and how large they are, so an artifact that cannot be collected is no fault; if
    the agent's files are the cause, the reason begins with `UNKEEPABLE`. Links, devices and sockets are never
    collected.
    """
    found: list[KeptArtifact] = []
    missing: list[str] = []
    try:
        with anyio.move_on_after(seconds) as scope:
            if sandbox is not None and (paths := list(environment.artifacts())):
                files = await sandbox.collect(paths, max_bytes=MOST_BYTES)
                found += await to_thread.run_sync(_kept, files)
            if environment.scores_states:
                state = await call_hook(environment.snapshot)
                found.append(await to_thread.run_sync(lambda: KeptArtifact.of(STATE, to_json(state))))
        if scope.cancelled_caught:
            missing.append(f"not collected within {seconds:g} s")
    except SandboxFileError as error:
        missing.append(f"{UNKEEPABLE}: {error}"[:300])
    except Exception as error:
        logger.info("artifacts of task %r are missing: %s", environment.task.id, error)
        missing.append(f"{type(error).__name__}: {error}"[:300])
    if sum(len(each.data) for each in found) > MOST_BYTES:
        missing.append(f"{UNKEEPABLE}: more than {MOST_BYTES:,} bytes")
        found = []
    return found, missing


def _kept(files: Sequence[File]) -> list[KeptArtifact]:
    return [KeptArtifact.of(str(PurePosixPath("/", file.path)), file.data) for file in files]
