"""Reads which environments, tasks, agents and models a run's records name."""

import hashlib
import json
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import JsonValue

from rollouthub.store import RunInfo
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.report_facts import AgentIdentity, EnvironmentIdentity, RunIdentity

MOST_KINDS = 64
"""Most environments, agents and models that are listed; bounds memory if records differ without end."""
_REFERENCES = """
SELECT group_id, json_extract(body, '$.environment', '$.tools_digest', '$.score.verifier', '$.isolation', '$.sandboxes',
    '$.task.split', '$.openings'), json_extract(body, '$.agent'), json_extract(body, '$.model'),
    json_extract(body, '$.task')
FROM rollouts WHERE effective ORDER BY id
"""
_DIGEST_SPACE = 2**256


@dataclass
class _RecordFacts:
    """What one pass over the records has found."""

    environments: Counter[str] = field(default_factory=Counter[str])
    agents: Counter[str] = field(default_factory=Counter[str])
    models: Counter[str] = field(default_factory=Counter[str])
    tasks: set[int] = field(default_factory=set[int])
    sum: int = 0
    """Sum of the digests of all tasks, which does not depend on the order in which they were played."""
    left_out: int = 0

    def count(self, kinds: Counter[str], text: str | None) -> bool:
        """Count an occurrence; return False if it is new and there is no room for it."""
        if text is None:
            return True
        if text not in kinds and len(kinds) >= MOST_KINDS:
            return False
        kinds[text] += 1
        return True


def identify(info: RunInfo, connection: sqlite3.Connection, plainness: Plainness) -> RunIdentity:
    """Read the identity of a run from all its records, in one pass."""
    seen = _RecordFacts()
    for group, environment, agent, model, task in connection.execute(_REFERENCES):
        place = hash(group)
        if place not in seen.tasks:
            seen.tasks.add(place)
            named = json.loads(task)
            name = json.loads(environment)[0]["name"]
            words = "\0".join((name, named["split"], named["id"], named["digest"]))
            digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).digest()
            seen.sum = (seen.sum + int.from_bytes(digest)) % _DIGEST_SPACE
        is_listed = [
            seen.count(kinds, text)
            for kinds, text in ((seen.environments, environment), (seen.agents, agent), (seen.models, model))
        ]
        seen.left_out += not all(is_listed)
    request = _mapping(info.resolved.get("request"))
    models = list(seen.models) or ([str(request["model"])] if request.get("model") else [])
    return RunIdentity(
        environments=_environments(seen.environments, plainness),
        tasks=len(seen.tasks),
        tasks_digest=f"sha256:{seen.sum:064x}"[:39] if seen.tasks else None,
        agents=_agents(seen.agents, plainness),
        models=tuple(plainness.ours(plainness.name(name)) for name in models),
        fallbacks=tuple(plainness.name(_model_name(each)) for each in _listing(request.get("fallbacks"))),
        roles={plainness.name(role): plainness.name(_model_name(each)) for role, each in _roles(request).items()},
        seats={plainness.name(seat): plainness.name(player) for seat, player in info.seats.items()},
        seed=cast("int | None", request.get("seed")),
        repeats=cast("int | None", request.get("repeats")),
        sampling=_settings(request.get("sampling"), plainness),
        limits={
            plainness.name(str(each.get("name"))): _settings(each.get("limits"), plainness)
            for each in map(_mapping, _listing(info.resolved.get("environments")))
        },
        left_out=seen.left_out,
    )


def _environments(found: Counter[str], plainness: Plainness) -> tuple[EnvironmentIdentity, ...]:
    """One entry per environment; its verifier is taken from records with a score, as others name none."""
    listed: dict[tuple[str, ...], EnvironmentIdentity] = {}
    for text, count in found.most_common():
        environment, tools, verifier, isolation, sandboxes, split, openings = json.loads(text)
        key = (json.dumps(environment), tools or "", isolation, split, json.dumps(openings))
        earlier = listed.get(key)
        places = {_sandbox(each, plainness): None for each in sandboxes or ()}
        if earlier is not None:
            places = dict.fromkeys(earlier.sandboxes) | places
            count += earlier.rollouts
        name = plainness.name
        listed[key] = EnvironmentIdentity(
            name=name(environment["name"]),
            version=name(environment["version"]),
            code=name(environment["digest"]),
            bundle=_name_or_none(environment.get("bundle"), plainness),
            dependencies=_name_or_none(environment.get("dependencies"), plainness),
            tools=_name_or_none(tools, plainness),
            verifier=earlier.verifier if earlier and earlier.verifier else _verifier(verifier, plainness),
            isolation=name(" open to ".join((isolation, *(openings or ())))),
            sandboxes=tuple(places),
            split=name(split),
            rollouts=count,
        )
    return tuple(listed.values())


def _verifier(verifier: dict[str, str] | None, plainness: Plainness) -> str | None:
    return plainness.name(" ".join(verifier.values())) if verifier else None


def _sandbox(found: dict[str, Any], plainness: Plainness) -> str:
    words = [found.get(key) for key in ("provider", "walls", "engine", "profile", "image", "image_digest")]
    words.append(f"network {found.get('network')}")
    return plainness.ours(", ".join(str(word) for word in words if word))


def _agents(found: Counter[str], plainness: Plainness) -> tuple[AgentIdentity, ...]:
    listed: list[AgentIdentity] = []
    for text, count in found.most_common():
        agent = json.loads(text)
        config = _mapping(agent.get("config"))
        canonical = json.dumps(config, sort_keys=True, separators=(",", ":")).encode()
        listed.append(
            AgentIdentity(
                name=plainness.name(agent["name"]),
                version=plainness.name(agent["version"]),
                config=_settings(config, plainness),
                digest=f"sha256:{hashlib.sha256(canonical).hexdigest()[:32]}",
                rollouts=count,
            )
        )
    return tuple(listed)


def _name_or_none(text: str | None, plainness: Plainness) -> str | None:
    return None if text is None else plainness.name(text)


def _settings(value: JsonValue, plainness: Plainness) -> dict[str, JsonValue]:
    return _mapping(plainness.settings(value))


def _mapping(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _listing(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _roles(request: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return _mapping(request.get("roles"))


def _model_name(given: JsonValue) -> str:
    return str(given.get("name")) if isinstance(given, dict) else str(given)
