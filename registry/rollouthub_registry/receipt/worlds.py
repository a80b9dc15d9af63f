"""Opens the environments of a run once more, to ask their verifiers and tools again: trusted ones, and offline."""

import os
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rollouthub.engine.foreign_run import refuse_named_code, refuse_named_files
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import Plan, make_plan
from rollouthub.engine.run_request import build_request
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.installed import find_installation
from rollouthub.plugins.manifest import load_manifest
from rollouthub.protocols import IDLE_AGENT
from rollouthub.rollout import Outcome, Rollout
from rollouthub.store import RunReader
from rollouthub_registry.receipt.evidence import request_of
from rollouthub_registry.shipped import shipped_folder

MOCK = "mock/"
_KEPT = ("split", "repeats", "seed", "limits", "skip_bad")
_CHOICE = ("tasks", "shuffle", "skip", "sample", "limit", "weights", "chosen")
"""Settings that choose the tasks of a run."""
_PROMISES = ("full", "seeded")
"""Values of a manifest's `determinism` with which the same actions meet the same world and score."""


@dataclass(frozen=True)
class ReplayOptions:
    """What is asked of a replay."""

    environment: str | None = None
    """The environment to open instead of the run's own, named by the user; needed for files, folders and servers."""
    limit: int | None = None
    """Most rollouts that are replayed, drawn at random; None for all."""


class Worlds:
    """The environments of one run, as a replay opens them."""

    def __init__(self, reader: RunReader, options: ReplayOptions) -> None:
        """Reads which environments those are.

        Raises:
            ConfigError: the run names code that only the user may name.
        """
        self._reader, self.options = reader, options
        resolved: Any = reader.info.resolved
        self._request = request_of(resolved)
        self.played = tuple(str(each["name"]) for each in resolved.get("environments") or ())
        targets = tuple(str(target) for target in self._request.get("environments") or ())
        if options.environment is not None:
            targets = (options.environment,)
        else:
            instead = "`hub verify RECEIPT --replay --env ENV`"
            refuse_named_code(targets, reader.directory, instead)
            refuse_named_files(targets, self._request.get("set") or {}, reader.directory, instead)
        self._targets = targets
        self.credentials: Credentials = load_credentials(os.environ, Path.cwd())

    @property
    def asks_servers(self) -> bool:
        """Whether the environments ask models at servers, which an offline replay does not."""
        return any(not _is_mock(model) for model in self._roles().values())

    @property
    def seed(self) -> int:
        """The run's seed."""
        seed = self._request.get("seed")
        return seed if isinstance(seed, int) else 0

    def plan(self, *, chooses_as_played: bool = False, **more: Any) -> Plan:
        """A plan of the run's environments with their settings; no model plays, unless `more` names one.

        Raises:
            UsageError: an environment is not here, or does not take the settings.
        """
        stored = cast(dict[str, Any], self._request.get("set") or {})
        if self.options.environment is not None and len(self.played) == 1:
            stored = {key.removeprefix(f"{self.played[0]}."): value for key, value in stored.items()}
        names = (*_KEPT, *(_CHOICE if chooses_as_played else ()))
        given: dict[str, Any] = {
            "environments": self._targets,
            "set": stored,
            "roles": {role: model for role, model in self._roles().items() if _is_mock(model)},
            "deadlines": self._request.get("deadlines"),
            "agent": IDLE_AGENT,  # nothing is played unless more says so
            **{name: self._request.get(name) for name in names},
            **more,
        }
        source = str(self._reader.directory)
        return make_plan(build_request({key: value for key, value in given.items() if value}, source))

    @asynccontextmanager
    async def open(self, plan: Plan) -> AsyncGenerator[OpenPlan]:
        """Open a plan's environments.

        Raises:
            HubError: one cannot be opened here.
        """
        async with open_plan(plan, self.credentials) as opened:
            yield opened

    def by_name(self, opened: OpenPlan) -> dict[str, OpenEnvironment]:
        """The opened environments by the names that the run's rollouts record."""
        names = self.played if len(self.played) == len(opened.environments) else ()
        return dict(zip(names, opened.environments, strict=False))

    def promises(self, name: str) -> bool:
        """Whether the environment says of itself that the same actions meet the same world and score."""
        target = self._targets[self.played.index(name)] if name in self.played else name
        folder = shipped_folder(target) or Path(target)
        installation = find_installation(target)
        file = installation.file if installation is not None else folder / FILE_NAME
        file = folder if folder.name == FILE_NAME else file
        return file.is_file() and load_manifest(file).determinism in _PROMISES

    def _roles(self) -> Mapping[str, Any]:
        return cast(dict[str, Any], self._request.get("roles") or {})


@dataclass(frozen=True)
class Chosen:
    """The rollouts that a replay looks at."""

    ids: frozenset[str]
    of: int
    """Number of scored rollouts that they were chosen from."""
    other_code: int
    """Number of scored rollouts whose environment is another version than the one here."""

    @property
    def share(self) -> str:
        """How many of how many, for a sentence."""
        return f"{len(self.ids):,} of {self.of:,} scored rollouts"


def choose(reader: RunReader, environments: Mapping[str, OpenEnvironment], limit: int | None) -> Chosen:
    """Choose scored rollouts of the environments that are here in the version that played: all, or some by chance.

    Chance is new each time, so that nobody can know beforehand which ones are looked at.
    """
    fitting: list[str] = []
    scored = others = 0
    for rollout in reader.rollouts():
        if rollout.outcome is not Outcome.SCORED:
            continue
        scored += 1
        if is_here(rollout, environments):
            fitting.append(rollout.rollout_id)
        else:
            others += 1
    if limit is not None and limit < len(fitting):
        fitting = random.SystemRandom().sample(fitting, limit)
    return Chosen(frozenset(fitting), scored, others)


def is_here(rollout: Rollout, environments: Mapping[str, OpenEnvironment]) -> bool:
    """Whether a rollout's environment is open in the version that it names."""
    opened = environments.get(rollout.environment.name)
    return opened is not None and opened.host.info.digest == rollout.environment.digest


def asked_servers(rollout: Rollout) -> bool:
    """Whether a model at a server took part in a rollout's world or verdict, which an offline replay cannot ask."""
    judged = rollout.score.judge_calls if rollout.score is not None else ()
    return any(not call.model.startswith(MOCK) for call in (*rollout.role_calls, *judged))


def _is_mock(model: Any) -> bool:
    fields = cast(dict[str, Any], model) if isinstance(model, dict) else {"name": model}
    return str(fields.get("name")).startswith(MOCK) and not fields.get("base_url") and not fields.get("fallbacks")
