"""Synthetic environments for benchmarks of a registry."""

import base64
import hashlib
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import JsonValue

from rollouthub_registry.bundle.attestation import PAYLOAD_TYPE, Baseline, CheckSummary, Predicate, Statement
from rollouthub_registry.bundle.bundle import Bundle, build_bundle
from rollouthub_registry.names import Release
from rollouthub_registry.server.atomic_write import locked, open_layout
from rollouthub_registry.server.directory_layout import BUNDLE, STATEMENT
from rollouthub_registry.server.owners import assign

_WORDS = (
    "algebra arithmetic board browser calculus chess code combinatorics compiler contract cooking crossword database "
    "debate desktop diagnosis dialogue email essay finance forecast formal geometry grammar graph history kernel "
    "language law logic maze medicine memory music negotiation network number optimisation physics planning poker "
    "probability proof puzzle python query reasoning recipe retrieval robot routing safety schedule science search "
    "security shell simulation sorting spreadsheet statistics story strategy summary support table terminal theorem "
    "tool translation travel trivia typing unit vision weather web word writing"
)
_REPORT: list[JsonValue] = [{"check": "oracle", "state": "passed"} for _ in range(12)]
_MANIFEST = """\
name = "crowd/{name}"
version = "{version}"
description = "{description}"
license = "Apache-2.0"
tags = {tags}

[server]
command = ["python", "{{folder}}/server.py"]

[tasks]
train = "tasks.jsonl"

[verifier]
command = ["python", "{{folder}}/verify.py"]
"""


class Crowd:
    """Thousands of synthetic environments of one publisher, the same every time."""

    def __init__(self, scratch: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self.words: list[str] = [*_WORDS.split()]
        self._scratch, self._random = scratch, random.Random(7)
        self._key = Ed25519PrivateKey.from_private_bytes(bytes(32))
        self._public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._key_id = hashlib.sha256(self._public).hexdigest()

    def offer(self, name: str, version: str) -> tuple[Path, bytes]:
        """A bundle and its signed statement, ready to be published."""
        bundle = self._bundle(name, version)
        return bundle.path, self._envelope(bundle, bundle.manifest.model_dump(mode="json"), bundle.release, 0)

    def fill(self, root: Path, environments: int, versions: int) -> None:
        """Write a registry's directory as publishing would, without flushing to the disk each time."""
        layout = open_layout(root)
        with locked(layout):
            assign(layout, "crowd", (self._key_id,))
        bundle = self._bundle("seed", "1.0.0")
        content, like = bundle.path.read_bytes(), bundle.manifest.model_dump(mode="json")
        for number in range(environments):
            name, description, tags = self._texts(number)
            for minor in range(versions):
                release = Release.parse(f"crowd/{name}@1.{minor}.0")
                said = {"name": f"crowd/{name}", "version": f"1.{minor}.0", "description": description, "tags": tags}
                folder = layout.version(release)
                folder.mkdir(parents=True)
                (folder / BUNDLE).write_bytes(content)
                (folder / STATEMENT).write_bytes(self._envelope(bundle, {**like, **said}, release, minor))

    def _texts(self, number: int) -> tuple[str, str, list[str]]:
        chosen = self._random.choices(self.words, k=14)
        return f"{chosen[0]}-{chosen[1]}-{number}", f"{' '.join(chosen[2:12])}.".capitalize(), chosen[12:]

    def _bundle(self, name: str, version: str) -> Bundle:
        folder = self._scratch / "sources" / name
        folder.mkdir(parents=True)
        _, description, tags = self._texts(0)
        values = {"name": name, "version": version, "description": description, "tags": json.dumps(tags)}
        (folder / "env.toml").write_text(_MANIFEST.format(**values))
        rows = (json.dumps({"prompt": f"What is {left} + {left}?"}) for left in range(100))
        (folder / "tasks.jsonl").write_text("\n".join(rows))
        return build_bundle(folder, self._scratch / "bundles")

    def _envelope(self, bundle: Bundle, manifest: dict[str, object], release: Release, step: int) -> bytes:
        predicate = Predicate.model_validate(
            {
                "manifest": manifest,
                "tools_digest": None,
                "check": CheckSummary(passed=self._random.random() < 0.9, report=_REPORT),
                "baselines": tuple(
                    Baseline(model=f"lab/model-{size}", mean_reward=round(self._random.random(), 3), samples=64)
                    for size in range(self._random.randrange(3))
                ),
                "created_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=step),
                "hub_version": "0.1.0",
                "contract": 1,
            }
        )
        payload = Statement.about(release, bundle.digest, predicate).model_dump_json().encode()
        signed = b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
        signature = {
            "keyid": self._key_id,
            "sig": base64.b64encode(self._key.sign(signed)).decode(),
            "publicKey": base64.b64encode(self._public).decode(),
        }
        held = {"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
        return json.dumps(held).encode()
