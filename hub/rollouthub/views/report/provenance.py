"""The provenance of a run's figures: what another person needs to reproduce them."""

import json
from collections.abc import Iterator

from rollouthub.statistics import amounts
from rollouthub.statistics.amounts import count
from rollouthub.views.markup import Markup, tag
from rollouthub.views.report.report_facts import EnvironmentIdentity, RunReport

MOST_SETTINGS = 20_000
"""Most characters of the settings that are shown."""


def facts(run: RunReport) -> Iterator[tuple[str, list[str]]]:
    """Terms with their values as text; indented terms are digests and details, which formats may set as code."""
    identity = run.identity
    for environment in identity.environments:
        yield "environment", [f"{environment.name} {environment.version}"]
        for term, digest in digests(environment):
            yield f"  {term}", [digest]
        yield "  split", [f"{environment.split}, {count(environment.rollouts, 'rollout')}, {environment.isolation}"]
        if environment.sandboxes:
            yield "  sandbox", list(environment.sandboxes[:4])
    repeats = f" × {count(identity.repeats, 'sample')}" if identity.repeats else ""
    yield "tasks", [f"{count(identity.tasks, 'task')}{repeats}"]
    if identity.tasks_digest:
        yield "  their contents", [identity.tasks_digest]
    if identity.models or not identity.agents:
        yield "model", list(identity.models) or ["none"]
    if identity.fallbacks:
        yield "  fallbacks", list(identity.fallbacks)
    for role, model in identity.roles.items():
        yield f"  {role}", [model]
    for seat, player in identity.seats.items():
        yield f"seat {seat}", [player]
    for agent in identity.agents:
        yield "agent", [f"{agent.name} {agent.version}" + ("" if agent.config else ", as it comes")]
        if agent.config:
            yield "  configuration", [compact(agent.config), agent.digest]
    yield "seed", [amounts.NONE if identity.seed is None else str(identity.seed)]
    yield "sampling", [compact(identity.sampling) if identity.sampling else "the backend's own"]
    for name, limits in identity.limits.items():
        yield "limits", [f"{name}: {compact(limits) if limits else 'none'}"]
    yield "hub", [f"{run.hub_version}, {moment_span(run)}"]
    if identity.left_out:
        yield "and more", [f"{identity.left_out:,} rollouts of further environments, agents or models"]


def digests(environment: EnvironmentIdentity) -> Iterator[tuple[str, str]]:
    """The digests of an environment: what each is of, and its value."""
    yield "code", environment.code
    if environment.bundle:
        yield "bundle", environment.bundle
    if environment.dependencies:
        yield "dependencies", environment.dependencies
    if environment.tools:
        yield "tool schemas", environment.tools
    if environment.verifier:
        yield "verifier", environment.verifier


def moment_span(run: RunReport) -> str:
    """When the run began and, if it has, ended."""
    ended = f" to {amounts.moment(run.finished_at)}" if run.finished_at is not None else ""
    return f"{amounts.moment(run.created_at)}{ended}"


def compact(value: object) -> str:
    """Format settings on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={json.dumps(item, ensure_ascii=False)}" for key, item in value.items())  # pyright: ignore
    return json.dumps(value, ensure_ascii=False)


def provenance(run: RunReport) -> Markup:
    """The facts as a definition list in HTML."""
    parts: list[Markup] = []
    for term, said in facts(run):
        is_digest = term.startswith("  ")
        parts.append(tag("dt", term.strip(), class_="sub" if is_digest else None))
        parts += [tag("dd", tag("code", each) if is_digest or "sha256:" in each else each) for each in said]
    return tag("dl", parts)


def settings(run: RunReport) -> Markup:
    """The section with all resolved settings, defaults included."""
    text = json.dumps(run.settings, indent=2, ensure_ascii=False)
    if len(text) > MOST_SETTINGS:
        text = f"{text[:MOST_SETTINGS]} … [{len(text)} characters in all]"
    inner = tag("details", tag("summary", "All settings, as resolved; secrets are masked"), tag("pre", text))
    return tag("section", tag("h2", "Settings"), inner)
