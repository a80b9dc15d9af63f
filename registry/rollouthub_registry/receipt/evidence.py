"""Reads all that a receipt says of a run, in one pass over its records."""

import hashlib
import math
import os
import stat
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import ValidationError

from rollouthub.errors import RunDirectoryError, UnknownNameError, describe, invalid_fields
from rollouthub.plugins.lock import FILE_NAME as LOCK
from rollouthub.rollout import Outcome, Rollout, Turn
from rollouthub.store import AttemptSummary, RunReader
from rollouthub.text import plain_name
from rollouthub_registry.receipt.canonical import FORM, json_digest, rollout_leaf
from rollouthub_registry.receipt.merkle import merkle_root
from rollouthub_registry.receipt.statement import (
    MOST_INDEXED,
    PlayedAgent,
    PlayedEnvironment,
    PlayedImage,
    PlayedModel,
    RolloutTree,
    RunCounts,
    RunFacts,
)

FILES = (LOCK, "run.toml", "resolved.json")
"""Files of a run's directory whose bytes a receipt names."""
_MOST_FILE_BYTES = 64 * 2**20
_MOST_INDEX_CHARACTERS = 2_000_000


class Watcher(Protocol):
    """Sees every attempt while the run is read."""

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Called with a record and its summary row; the row is None if the run has none for it."""
        ...


@dataclass
class RunReading:
    """What was read of a run."""

    facts: RunFacts
    leaves: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """`ROLLOUT#ATTEMPT` → leaf, in the order of the tree."""


def attempt_name(rollout: Rollout) -> str:
    """`ROLLOUT#ATTEMPT`, as a receipt's index names an attempt."""
    return f"{rollout.rollout_id}#{rollout.attempt}"


def turn_model(rollout: Rollout, turn: Turn) -> str | None:
    """Name of the model that a record says gave a turn's response; None if none did."""
    return turn.model if turn.model is not None else rollout.model_of(turn.agent)


def asks_model(turn: Turn) -> bool:
    """Whether a turn has anything that only a model call leaves: tools shown, a finish reason, usage, ids or a cost."""
    usage = turn.usage
    return (
        turn.tools is not None
        or turn.finish_reason is not None
        or turn.output_token_ids is not None
        or turn.cost is not None
        or bool(usage.prompt_tokens or usage.output_tokens)
    )


def read_run(reader: RunReader, watchers: Sequence[Watcher] = ()) -> RunReading:
    """Read a finished run; `watchers` see each attempt.

    Raises:
        RunDirectoryError: the run is being written, is damaged, or names things too long or too many for a receipt.
    """
    with _reading(reader.directory):
        status = reader.info.status
    if status == "running":
        raise RunDirectoryError(f"{reader.directory} is still being played; wait until it has ended")
    try:
        return _Reading(reader).read(watchers)
    except ValidationError as error:
        raise RunDirectoryError(
            f"the run in {reader.directory} holds what no receipt takes: {invalid_fields(error)}"
        ) from error


class _Reading:
    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._environments: dict[tuple[str, str, str, str | None, str | None], set[str]] = {}
        self._played = Counter[tuple[str, str, str, str | None, str | None]]()
        self._agents: set[PlayedAgent] = set()
        self._answers: dict[tuple[str, str], list[int]] = {}
        self._images: set[tuple[str | None, str | None]] = set()
        self._tools: dict[str, str] = {}
        self._outcomes = Counter[Outcome]()
        self._rewards: list[float] = []
        self._passed = self._suspect = 0

    def read(self, watchers: Sequence[Watcher]) -> RunReading:
        with _reading(self._reader.directory):
            rows = self._reader.summaries(effective=False)
            summaries = {(row.rollout_id, row.attempt): row for row in rows}
        found: list[tuple[str, int, bytes]] = []
        for rollout in _records(self._reader):
            summary = summaries.get((rollout.rollout_id, rollout.attempt))
            is_effective = summary is not None and summary.effective
            found.append((rollout.rollout_id, rollout.attempt, rollout_leaf(rollout, is_effective=is_effective)))
            self._note(rollout)
            if is_effective:
                self._count(rollout)
            for watcher in watchers:
                watcher.look(rollout, summary)
        found.sort()
        leaves = {f"{rollout_id}#{attempt}": leaf for rollout_id, attempt, leaf in found}
        tree = RolloutTree(
            form=FORM,
            leaves=len(found),
            root="sha256:" + merkle_root([leaf for _, _, leaf in found]).hex(),
            index={name: leaf.hex()[:16] for name, leaf in leaves.items()} if _is_listed(leaves) else None,
        )
        return RunReading(self._facts(tree), leaves)

    def _note(self, rollout: Rollout) -> None:
        """Note who and what took part in an attempt."""
        ref = rollout.environment
        played = (ref.name, ref.version, ref.digest, ref.bundle, ref.dependencies)
        self._environments.setdefault(played, set()).add(rollout.task.split)
        self._played[played] += 1
        for agent in (rollout.agent, *(seat.agent for seat in rollout.seats.values())):
            self._agents.add(PlayedAgent(name=agent.name, version=agent.version, config=json_digest(agent.config)))
        for turn in rollout.turns:
            model = turn_model(rollout, turn)
            if model is not None:
                counts = self._answers.setdefault(("player", model), [0, 0, 0])
                counts[0] += 1
                counts[1] += turn.output_token_ids is not None
                counts[2] += turn.output_logprobs is not None
        judged = rollout.score.judge_calls if rollout.score is not None else ()
        for call in (*rollout.role_calls, *judged):
            self._answers.setdefault(("environment", call.model), [0, 0, 0])[0] += 1
        self._images |= {(each.image, each.image_digest) for each in rollout.sandboxes if each.image is not None}
        if rollout.tools_digest is not None and rollout.tools_digest not in self._tools:
            with _reading(self._reader.directory):
                self._tools[rollout.tools_digest] = self._definitions(rollout.tools_digest)

    def _definitions(self, digest: str) -> str:
        try:
            tools = self._reader.tools(digest)
        except UnknownNameError:
            return json_digest(None)
        return json_digest([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])

    def _count(self, rollout: Rollout) -> None:
        self._outcomes[rollout.outcome] += 1
        if rollout.score is not None and not rollout.awaits_group:
            self._rewards.append(rollout.score.reward)
            self._passed += rollout.score.passed is True
            self._suspect += rollout.score.suspect is not None

    def _facts(self, tree: RolloutTree) -> RunFacts:
        info = self._reader.info
        request = request_of(info.resolved)
        sampling, seed = request.get("sampling"), request.get("seed")
        return RunFacts(
            run_id=info.run_id,
            status=info.status,
            stopped=info.stopped,
            created_at=info.created_at,
            finished_at=info.finished_at,
            resumptions=len(info.resumptions),
            machines=json_digest({"host": info.host, "resumptions": [asdict(each) for each in info.resumptions]}),
            hub_version=info.hub_version,
            run_schema=info.schema,
            settings=json_digest(info.resolved),
            sampling=cast(dict[str, Any], sampling) if isinstance(sampling, dict) else {},
            seed=seed if isinstance(seed, int) else None,
            environments=tuple(self._environments_played()),
            agents=tuple(sorted(self._agents, key=lambda agent: (agent.name, agent.version, agent.config))),
            models=tuple(self._models()),
            images=tuple(PlayedImage(name=name, digest=digest) for name, digest in _sorted(self._images)),
            tools=dict(sorted(self._tools.items())),
            files=file_digests(self._reader.directory),
            counts=RunCounts(
                planned=info.planned,
                recorded=sum(self._outcomes.values()),
                attempts=tree.leaves,
                waiting=self._reader.waiting(),
                bad_rows=info.bad_rows,
                outcomes=dict(sorted(self._outcomes.items())),
                suspect=self._suspect,
                passed=self._passed,
                # An exact sum does not depend on the order.
                mean_reward=math.fsum(self._rewards) / len(self._rewards) if self._rewards else None,
            ),
            tree=tree,
        )

    def _environments_played(self) -> Iterable[PlayedEnvironment]:
        for played in _sorted(self._environments):
            name, version, code, bundle, dependencies = played
            yield PlayedEnvironment(
                name=name,
                version=version,
                code=code,
                bundle=bundle,
                dependencies=dependencies,
                splits=tuple(sorted(self._environments[played])),
                attempts=self._played[played],
            )

    def _models(self) -> Iterable[PlayedModel]:
        for (role, name), (answers, ids, logprobs) in sorted(self._answers.items()):
            yield PlayedModel.model_validate(
                {"name": name, "role": role, "answers": answers, "with_token_ids": ids, "with_logprobs": logprobs}
            )


def _records(reader: RunReader) -> Iterator[Rollout]:
    """Every record of a run.

    Raises:
        RunDirectoryError: one cannot be read.
    """
    records = reader.rollouts(effective=False)
    while True:
        with _reading(reader.directory):
            record = next(records, None)
        if record is None:
            return
        yield record


@contextmanager
def _reading(directory: Path) -> Generator[None]:
    """Name what reading raises where somebody wrote other values into a database than the hub writes."""
    try:
        yield
    except (LookupError, ValueError, TypeError, OverflowError) as error:
        shown = plain_name(str(directory))
        raise RunDirectoryError(f"the run in {shown} is damaged, or not the hub's: {describe(error)}") from error


def _is_listed(leaves: Collection[str]) -> bool:
    """Whether a receipt lists a run's attempts one by one, beside the root over all of them."""
    return len(leaves) <= MOST_INDEXED and sum(map(len, leaves)) <= _MOST_INDEX_CHARACTERS


def request_of(resolved: Any) -> dict[str, Any]:
    """The request of a run's resolved settings; empty where a run has none."""
    request: Any = cast(dict[str, Any], resolved).get("request") if isinstance(resolved, dict) else None
    return cast(dict[str, Any], request) if isinstance(request, dict) else {}


def file_digests(directory: Path) -> dict[str, str]:
    """Name → digest of the files beside a run's records that are there.

    Raises:
        RunDirectoryError: one is no regular file, or too large.
    """
    return {name: found for name in FILES if (found := _file_digest(directory / name)) is not None}


def _file_digest(file: Path) -> str | None:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(file, "rb", opener=lambda path, _: os.open(path, flags)) as source:
            found = os.fstat(source.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_FILE_BYTES:
                raise RunDirectoryError(f"{plain_name(str(file))} is no regular file of at most 64 MiB")
            return "sha256:" + hashlib.sha256(source.read(_MOST_FILE_BYTES)).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDirectoryError(f"{plain_name(str(file))} cannot be read: {error.strerror or error}") from error


def _sorted(rows: Iterable[Any]) -> list[Any]:
    """Rows of texts and Nones in an order that does not depend on how they came."""
    return sorted(rows, key=lambda row: tuple((each is not None, each or "") for each in row))
