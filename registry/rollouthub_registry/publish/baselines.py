"""Baselines: scores of finished runs that the publisher reports with an environment."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.manifest import load_manifest
from rollouthub.rollout import Outcome
from rollouthub.statistics import summarise_groups
from rollouthub.store import RunInfo, RunReader, open_run
from rollouthub_registry.bundle.attestation import Baseline
from rollouthub_registry.names import Release
from rollouthub_registry.publish.publish_error import PublishRefused
from rollouthub_registry.publish.published_checks import without_paths
from rollouthub_registry.shipped import shipped_folder

MOST = 100


def read_baselines(runs: Iterable[Path], release: Release) -> tuple[Baseline, ...]:
    """The baselines of these runs, the best first.

    Raises:
        RunDirectoryError: a run cannot be read.
        PublishRefused: a run is not finished, not of this release, by several models, or has unscored rollouts.
    """
    found = [read_baseline(run, release) for run in dict.fromkeys(run.resolve() for run in runs)]
    if len(found) > MOST:
        raise PublishRefused(f"{len(found)} baselines are too many; {MOST} are allowed")
    return tuple(sorted(found, key=lambda baseline: -baseline.mean_reward))


def read_baseline(run: Path, release: Release) -> Baseline:
    """The baseline of one run.

    Raises:
        RunDirectoryError: the run cannot be read.
        PublishRefused: it is not finished, not of this release, by several models, or has unscored rollouts.
    """
    with open_run(run) as reader:
        info = reader.info
        if info.status != "finished" or info.stopped is not None:
            why = info.stopped or f"it is {info.status}"
            raise _refused(run, f"the run is not finished ({why}); go on with `hub run --resume -o {run}`")
        if info.read_from is not None:
            raise _refused(run, "it was read from another tool's files; a baseline is played by a hub")
        _check_environment(run, info, release)
        model = _model(run, reader, info)
        outcomes = reader.outcomes()
        played = sum(outcomes.values())
        unscored = {outcome: count for outcome, count in outcomes.items() if outcome is not Outcome.SCORED}
        if unscored:
            said = ", ".join(f"{count} {outcome.value}" for outcome, count in sorted(unscored.items()))
            raise _refused(
                run,
                f"{sum(unscored.values())} of {played} rollouts have no score ({said}), and the mean of the others "
                f"would flatter it; play them again with `hub run --resume -o {run}`",
            )
        if not played:
            raise _refused(run, "nothing was played in it")
        total, _, _ = reader.reward_sums()
        overall = summarise_groups(reader.group_counts()).overall
    interval = overall.at_k[0].avg_at_k  # of a complete run, whose tasks weigh alike
    return Baseline(model=model, mean_reward=total / played, samples=played, low=interval.low, high=interval.high)


def _check_environment(run: Path, info: RunInfo, release: Release) -> None:
    played = _environments(info)
    if len(played) != 1:
        names = ", ".join(played) or "none"
        raise _refused(run, f"it played {len(played)} environments ({names}); a baseline is of {release} alone")
    name, _, version = played[0].partition("@")
    if _package(name) != str(release.package) or version != str(release.version):
        raise _refused(run, f"it played {played[0]}, and what is published is {release}; play this one")


def _package(name: str) -> str:
    """The package name of an environment; the hub's own have bare names in runs."""
    folder = shipped_folder(name)
    return name if folder is None else load_manifest(folder / FILE_NAME).name


def _environments(info: RunInfo) -> list[str]:
    listed: Any = info.resolved.get("environments")
    if not isinstance(listed, list):
        return []
    entries = [cast(dict[str, Any], entry) for entry in cast(list[Any], listed) if isinstance(entry, dict)]
    return [f"{entry.get('name')}@{entry.get('version')}" for entry in entries]


def _model(run: Path, reader: RunReader, info: RunInfo) -> str:
    """The one model of a run."""
    request: Any = info.resolved.get("request")
    asked = cast(dict[str, Any], request) if isinstance(request, dict) else {}
    models = {asked.get("model")}
    if asked.get("fallbacks") or info.resumptions:  # another one may have answered here and there
        for rollout in reader.rollouts():
            models |= {rollout.model, *(turn.model for turn in rollout.turns if turn.model is not None)}
    named = sorted(model for model in models if isinstance(model, str))
    if not named:
        raise _refused(run, "no model played it, but a script or a person; a baseline is a model's")
    if len(models) > 1:
        raise _refused(run, f"several models played it ({', '.join(named)}); a baseline is one model's")
    # A checkpoint's path says where its publisher keeps things; its last part says which it is.
    return _without_folders(named[0])


def _without_folders(model: str) -> str:
    provider, slash, name = model.partition("/")
    if name.startswith(("/", "~", ".")) or without_paths(name) != name:
        return f"{provider}{slash}{Path(name).name}"[:200]
    return (Path(model).name if without_paths(model) != model else model)[:200]


def _refused(run: Path, why: str) -> PublishRefused:
    return PublishRefused(f"{run} is no baseline: {why}")
