"""Validates a bundle and its statement before they are published."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from rollouthub.errors import UsageError, invalid_fields
from rollouthub.plugins.manifest import Manifest
from rollouthub_registry.bundle.attestation import Envelope, Statement
from rollouthub_registry.bundle.bundle import open_bundle
from rollouthub_registry.manifest import PublishedVersion, server_json
from rollouthub_registry.names import Release
from rollouthub_registry.server.env_toml import env_toml
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.server.version_listing import BUNDLE_HERE, Facts, facts_of
from rollouthub_registry.trust.signatures import open_envelope, parse_envelope

STATEMENT_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Examined:
    """The bundle and its signed statement, both valid."""

    release: Release
    key_id: str
    """Id of the key that signed it."""
    facts: Facts


def examine(bundle: Path, statement: Path) -> Examined:
    """Check that a statement is signed, and that it is true of the bundle.

    Raises:
        RegistryRequestRefused: with status 422 and the reason.
    """
    try:
        envelope = parse_envelope(statement.read_bytes())
        said = open_envelope(envelope).statement
        opened = open_bundle(bundle)
    except RegistryRequestRefused:
        raise
    except UsageError as error:
        raise RegistryRequestRefused(422, str(error).replace(str(bundle), "the bundle")) from error
    if opened.digest != said.digest:
        raise RegistryRequestRefused(
            422, f"the statement speaks of another bundle: it names {said.digest}, this one is {opened.digest}"
        )
    if said.subject[0].name != str(opened.release):
        raise RegistryRequestRefused(
            422, f"the statement speaks of {said.subject[0].name}, and the bundle's env.toml of {opened.release}"
        )
    if _manifest(said) != opened.manifest or said.predicate.contract != opened.manifest.contract:
        raise RegistryRequestRefused(
            422, f"what the statement says of the env.toml of {opened.release} is not what the bundle holds"
        )
    return _examined(envelope, said, opened.manifest, bundle)


def read_statement(statement: bytes, bundle: Path) -> Examined:
    """Read the statement of a published bundle, which was validated at upload.

    Raises:
        UsageError: the statement is not signed, or not about a release.
        OSError: the bundle cannot be read.
    """
    envelope = parse_envelope(statement)
    said = open_envelope(envelope).statement
    return _examined(envelope, said, _manifest(said), bundle)


def _examined(envelope: Envelope, said: Statement, manifest: Manifest, bundle: Path) -> Examined:
    digest = hashlib.sha256(env_toml(bundle)).hexdigest()
    server = server_json(manifest, PublishedVersion(digest, said.predicate.tools_digest, said.digest, BUNDLE_HERE))
    try:
        facts = facts_of(envelope, said, bundle.stat().st_size, server)
        # Now, and not when it is published and would be in the way of everything else: numbers and times have bounds.
        facts.text.encode()
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise RegistryRequestRefused(
            422, f"what the statement says of {said.release} cannot be kept: {error}"
        ) from error
    return Examined(said.release, envelope.signatures[0].keyid, facts)


def _manifest(statement: Statement) -> Manifest:
    try:
        return Manifest.model_validate_json(json.dumps(statement.predicate.manifest), strict=True)
    except ValidationError as error:
        raise RegistryRequestRefused(422, f"the statement's manifest is none: {invalid_fields(error)}") from error
