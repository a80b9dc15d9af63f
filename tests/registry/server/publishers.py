"""Publishers with keys of their own, and what they publish."""

import base64
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from rollouthub_registry.bundle.attestation import PAYLOAD_TYPE, Baseline, CheckSummary, Predicate, ShownTool, Statement
from rollouthub_registry.bundle.bundle import Bundle, build_bundle
from rollouthub_registry.names import Release

MANIFEST = """\
name = {name}
version = {version}
description = {description}
license = "MIT"
tags = {tags}

[server]
command = ["python", "{{folder}}/server.py"]

[tasks]
test = "tasks.jsonl"

[verifier]
command = ["python", "{{folder}}/verify.py"]
"""


@dataclass(frozen=True)
class Offer:
    """A bundle with its signed statement, ready to be published."""

    bundle: Bundle
    envelope: bytes

    @property
    def release(self) -> Release:
        """Which release it is."""
        return self.bundle.release


@dataclass(frozen=True)
class Publisher:
    """Somebody with a key."""

    folder: Path
    """Where bundles are made."""
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def public_key(self) -> bytes:
        """The raw public key."""
        return self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @property
    def key_id(self) -> str:
        """The key's id."""
        return hashlib.sha256(self.public_key).hexdigest()

    def offer(self, name: str, version: str = "1.0.0", **said: Any) -> Offer:
        """Build and sign a small environment."""
        described, tags = said.get("description", "An environment."), said.get("tags", ())
        bundle = self.build(name, version, described, tags, said.get("files", {}), said.get("more", ""))
        statement = statement_of(
            bundle, said.get("baselines", ()), said.get("passed", True), tools=said.get("tools", ())
        )
        return Offer(bundle, self.sign(statement))

    def build(
        self,
        name: str,
        version: str,
        description: str,
        tags: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        more: str = "",
    ) -> Bundle:
        """A small environment's bundle, with files of one's own, and `more` at the end of its env.toml."""
        folder = self.folder / name.replace("/", "__") / version
        folder.mkdir(parents=True, exist_ok=True)
        values = {"name": name, "version": version, "description": description, "tags": list(tags)}
        filled = MANIFEST.format(**{key: json.dumps(value, ensure_ascii=False) for key, value in values.items()})
        (folder / "env.toml").write_text(filled + more)
        (folder / "tasks.jsonl").write_text('{"prompt": "1 + 1?", "answer": "two-is-secret"}\n')
        for path, text in (files or {}).items():
            (folder / path).write_text(text)
        return build_bundle(folder, self.folder / "bundles")

    def offer_of(self, manifest: str, wheel: tuple[str, bytes] | None = None) -> Offer:
        """Build and sign an environment by the text of its env.toml."""
        folder = self.folder / "declared"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "wheel").mkdir(parents=True)
        (folder / "env.toml").write_text(manifest)
        (folder / "tasks.jsonl").write_text('{"prompt": "1 + 1?"}\n')
        if wheel is not None:
            (folder / "wheel" / wheel[0]).write_bytes(wheel[1])
        bundle = build_bundle(folder, self.folder / "bundles")
        return Offer(bundle, self.sign(statement_of(bundle)))

    def sign(self, statement: Statement) -> bytes:
        """A statement in a signed envelope."""
        payload = statement.model_dump_json().encode()
        signed = b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
        signature = {
            "keyid": self.key_id,
            "sig": base64.b64encode(self.key.sign(signed)).decode(),
            "publicKey": base64.b64encode(self.public_key).decode(),
        }
        held = {"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
        return json.dumps(held).encode()


def statement_of(
    bundle: Bundle,
    baselines: Sequence[tuple[str, float, int] | tuple[str, float, int, float, float]] = (),
    passed: bool = True,
    digest: str | None = None,
    manifest: dict[str, Any] | None = None,
    tools: Sequence[ShownTool] = (),
) -> Statement:
    """What an honest publisher says of a bundle, unless told to say something else."""
    predicate = Predicate(
        manifest=bundle.manifest.model_dump(mode="json") if manifest is None else manifest,
        tools_digest=None,
        tools=tuple(tools),
        check=CheckSummary(passed=passed),
        baselines=tuple(map(_baseline, baselines)),
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        hub_version="0.1.0",
        contract=1,
    )
    return Statement.about(bundle.release, digest or bundle.digest, predicate)


def _baseline(stated: tuple[str, float, int] | tuple[str, float, int, float, float]) -> Baseline:
    model, mean, samples, *interval = stated
    low, high = interval or (None, None)
    return Baseline(model=model, mean_reward=mean, samples=samples, low=low, high=high)
