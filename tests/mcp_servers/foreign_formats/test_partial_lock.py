"""Requirements of which some distributions have no wheel: the rest is locked, each distribution once."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from rollouthub_servers.foreign.partial_lock import lock_without
from tests.registry.install.wheels import write_wheel


def publish(index: Path, name: str, numbers: Sequence[str], needs: Sequence[str] = ()) -> None:
    """Put versions of a distribution into a package index."""
    files = [write_wheel(index / name, name, number, needs) for number in numbers]
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    lines = [f'<a href="{file}#sha256={digest}">{file}</a>' for file, digest in digests.items()]
    (index / name / "index.html").write_text("\n".join(lines))


def test_what_is_asked_for_and_needed_by_the_rest_is_locked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    publish(index, "lemma", ["1.0"], ["mid"])
    publish(index, "mid", ["1.0"], ["gone", "axiom"])
    publish(index, "axiom", ["2.0"], ["shared"])
    publish(index, "shared", ["3.0", "4.0"])
    for name in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, index.as_uri())
    for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    locked = lock_without(["lemma", "shared<4"], ["gone"], lambda _: None)
    assert sorted((each.name, each.version) for each in locked.dependencies) == [
        ("axiom", "2.0"),
        ("lemma", "1.0"),
        ("mid", "1.0"),
        ("shared", "3.0"),
    ]
