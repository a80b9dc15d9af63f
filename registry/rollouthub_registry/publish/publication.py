"""`hub publish`: every step from a folder to a registry; a failure leaves nothing behind."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rollouthub.errors import ConfigError
from rollouthub.event_loop import run_async
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.manifest import load_manifest
from rollouthub.store.atomic_files import replace_file
from rollouthub_registry.bundle.attestation import Baseline
from rollouthub_registry.bundle.bundle import Bundle, build_bundle
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.manifest import check_publishable
from rollouthub_registry.names import Release
from rollouthub_registry.publish.baselines import read_baselines
from rollouthub_registry.publish.destination import Destination
from rollouthub_registry.publish.gate import Passed, pass_gate
from rollouthub_registry.publish.publish_error import ChecksFailed, PublishRefused
from rollouthub_registry.publish.statement import signed_statement
from rollouthub_registry.publish.steps import Steps
from rollouthub_registry.scaffold.names import LOCAL, PLACEHOLDERS
from rollouthub_registry.trust.keys import config_folder, load_key

STATEMENT_SUFFIX = ".statement.json"


@dataclass(frozen=True)
class PublishRequest:
    """The options of `hub publish`."""

    folder: Path
    to: str | None = None
    """URL of the registry; None for the registry of the environment's namespace."""
    asked: CheckRequest = field(default_factory=CheckRequest)
    baselines: tuple[Path, ...] = ()
    """Directories of the runs to report as baselines."""
    allows_failing_checks: bool = False
    out: Path | None = None
    """Folder to write the bundle and its statement to, instead of publishing."""
    is_rehearsal: bool = False
    """Whether everything is done except writing or uploading the result."""

    is_quick: bool = False
    """Whether the attacks and the audit are left out, which the statement then says."""

    @property
    def is_local(self) -> bool:
        """Whether no registry is contacted."""
        return self.out is not None or (self.is_rehearsal and self.to is None)


@dataclass(frozen=True)
class PublishResult:
    """The result of publishing a bundle."""

    release: Release
    digest: str
    size: int
    key_id: str
    passed: Passed | None
    """Results of the checks; None if the same bundle was published before."""
    baselines: tuple[Baseline, ...]
    registry: str | None
    """URL of the registry; None if it was written to a folder, or not written at all."""
    seen_at: str | None
    """URL of its page in the registry."""
    bundle: Path | None = None
    """Path of the bundle, if it was written to a folder."""
    statement: Path | None = None

    @property
    def was_there(self) -> bool:
        """Whether the same bundle was published before."""
        return self.passed is None

    @property
    def install(self) -> tuple[str, ...] | None:
        """The command that installs it; None if it was neither published nor written."""
        if self.registry is not None:
            return ("hub", "install", str(self.release), "--registry", self.registry)
        return ("hub", "install", str(self.bundle)) if self.bundle is not None else None


def publish(order: PublishRequest, environ: Mapping[str, str], steps: Steps) -> PublishResult:
    """Check an environment, sign it and upload it to a registry. Blocks until it is done.

    Raises:
        UsageError: it must not be published, or the registry refuses it.
        HubError: the registry cannot be reached.
    """
    with tempfile.TemporaryDirectory(prefix="rollouthub-publish-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        with steps.step("reading env.toml") as step:
            release, forgotten = _publishable(order.folder)
            to = None if order.is_local else Destination.of(order.to, release, environ)
            baselines = read_baselines(order.baselines, release)
            key = load_key(config_folder(environ) / "keys")
            step.said = f"{release}{forgotten}"
        with steps.step("building the bundle") as step:
            bundle = build_bundle(order.folder, folder / "bundle")
            step.said = f"{len(bundle.files)} files, {bundle.size:,} bytes"
        if to is not None:
            with steps.step(f"asking {to.url}") as step:
                if run_async(to.has, bundle, key.id):
                    step.said = "just this is published already"
                    return PublishResult(release, bundle.digest, bundle.size, key.id, None, (), to.url, to.url)
                step.said = f"{release} is not there yet"
        passed = pass_gate(bundle, order.asked, folder, steps, is_quick=order.is_quick)
        if not passed.is_good and not order.allows_failing_checks:
            problems = () if passed.audited is None else tuple(passed.audited.problems)
            raise ChecksFailed(str(release), passed.findings, problems)
        with steps.step("signing") as step:
            envelope = signed_statement(bundle, passed, order.asked, baselines, key)
            step.said = f"key {key.id}"
        made = PublishResult(release, bundle.digest, bundle.size, key.id, passed, baselines, None, None)
        return _hand_over(made, order, to, bundle, envelope, steps)


def _hand_over(
    made: PublishResult, order: PublishRequest, to: Destination | None, bundle: Bundle, envelope: bytes, steps: Steps
) -> PublishResult:
    """Upload or write the result: the only step with an effect outside."""
    if to is not None and not order.is_rehearsal:
        with steps.step(f"publishing to {to.url}") as step:
            step.said = "a new registry, made there now" if to.is_new else ""
            seen_at = run_async(to.send, bundle, envelope)
        return replace(made, registry=to.url, seen_at=seen_at)
    if order.out is not None and not order.is_rehearsal:
        with steps.step(f"writing to {order.out}"):
            path, statement = _write(order.out, bundle, envelope)
        return replace(made, bundle=path, statement=statement)
    return made


def _publishable(folder: Path) -> tuple[Release, str]:
    """The release that the folder declares, and a note on what its author may have forgotten."""
    file = folder / FILE_NAME
    manifest = load_manifest(file)
    problems = check_publishable(manifest, file)
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise PublishRefused(f"{manifest.name} cannot be published; mend this first:\n{lines}")
    release = Release.parse(f"{manifest.name}@{manifest.version}")
    if release.package.namespace == LOCAL:
        raise PublishRefused(
            f"{manifest.name} cannot be published: `{LOCAL}/` is for what was given no namespace; write "
            f'name = "YOUR-NAMESPACE/{release.package.name}" in {file}'
        )
    kept = {key for key, value in PLACEHOLDERS if value in (manifest.description, *manifest.authors)}
    forgotten = f"; still as `hub new` wrote it in {FILE_NAME}: {', '.join(sorted(kept, reverse=True))}" if kept else ""
    return release, forgotten


def _write(folder: Path, bundle: Bundle, envelope: bytes) -> tuple[Path, Path]:
    """Write the bundle and its statement to a folder; the bundle comes last, so that its statement is there already."""
    path = folder / bundle.path.name
    statement = path.with_name(path.name + STATEMENT_SUFFIX)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(statement, envelope)
        try:
            replace_file(path, bundle.path.read_bytes())
        except BaseException:
            statement.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"nothing can be written to {folder}: {error.strerror or error}") from error
    return path, statement
