"""What a foreign server leaves in its scratch folder is kept where `env.toml` names it, and nothing else."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Submission
from rollouthub.errors import ConfigError
from rollouthub.plugins.environments import find_environment
from rollouthub.score import UNKEEPABLE
from rollouthub_servers.mcp_server import scratch
from tests.mcp_servers.foreign import VERIFY, call, make, playing, text

NAMED = ["note.txt", "out/*.csv", "whole", "locked"]


async def left(file: Path, **more: Any) -> tuple[dict[str, bytes], list[str], Any]:
    """What is kept of a server that wrote, what is missing, and the artifacts that the verifier was told of."""
    async with playing(file) as episode:
        folder = Path(json.loads(text(await call(episode, "look")))["cwd"])
        for name in ("note.txt", "other.txt", "out/a.csv", "out/b.txt", "whole/deep/c"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
        for make_one in more.get("made", ()):
            make_one(folder)
        score = await episode.verify(Submission())
        kept = {each.ref.name: each.data for each in episode.artifacts}
        return kept, list(episode.missing_artifacts), score.metadata.get("artifacts")


TELLS = VERIFY.replace(
    '"passed": right', '"passed": right, "metadata": {"artifacts": asked["submission"]["artifacts"]}'
)


async def test_what_the_manifest_names_is_kept_and_the_verifier_is_told(tmp_path: Path) -> None:
    kept, missing, told = await left(make(tmp_path / "notes", server={"artifacts": NAMED}, verify=TELLS))
    assert kept == {name: name.encode() for name in ("note.txt", "out/a.csv", "whole/deep/c")}
    assert missing == []
    assert sorted(each["name"] for each in told) == sorted(kept)


async def test_nothing_is_kept_where_nothing_is_named(tmp_path: Path) -> None:
    assert (await left(make(tmp_path / "notes")))[:2] == ({}, [])


async def test_links_and_pipes_are_never_followed_and_named_as_missing(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("a key of this machine's")

    def spoil(folder: Path) -> None:
        (folder / "note.txt").unlink()
        (folder / "note.txt").symlink_to(secret / "key")
        (folder / "whole" / "link").symlink_to(secret)
        os.mkfifo(folder / "whole" / "pipe")
        (folder / "out").rename(folder / "elsewhere")
        (folder / "out").symlink_to(folder / "elsewhere")

    kept, missing, _ = await left(make(tmp_path / "notes", server={"artifacts": NAMED}), made=[spoil])
    assert kept == {"whole/deep/c": b"whole/deep/c"}
    reasons = {reason.removeprefix(f"{UNKEEPABLE}: ") for reason in missing}
    assert reasons == {"note.txt: a link", "whole/link: a link", "out: a link", "whole/pipe: no plain file"}


async def test_what_is_too_large_is_left_out_and_said(tmp_path: Path) -> None:
    def flood(folder: Path) -> None:
        (folder / "whole" / "big").write_bytes(b"x" * (33 << 20))

    kept, (missing,), _ = await left(make(tmp_path / "notes", server={"artifacts": NAMED}), made=[flood])
    assert set(kept) == {"note.txt", "out/a.csv", "whole/deep/c"}
    assert missing.startswith(f"{UNKEEPABLE}: whole/big: more than")


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../../b", "", ".", "**/x"])
def test_a_path_outside_of_the_scratch_folder_is_refused(tmp_path: Path, path: str) -> None:
    file = make(tmp_path / "notes", server={"artifacts": [path]})
    with pytest.raises(ConfigError, match="names nothing in the scratch folder"):
        find_environment(str(file))


def test_a_server_elsewhere_has_no_files_to_keep(tmp_path: Path) -> None:
    file = make(tmp_path / "notes", server={"url": "http://127.0.0.1:1/mcp", "artifacts": ["x"]})
    with pytest.raises(ConfigError, match="started here"):
        find_environment(str(file))


def test_a_pattern_names_parts_of_a_path(tmp_path: Path) -> None:
    for name in ("a/x.csv", "a/b/x.csv", "ab/x.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)

    def named(pattern: str) -> set[str]:
        return {each.ref.name for each in scratch.collect(tmp_path, [pattern], 1000).kept}

    assert named("a/*.csv") == {"a/x.csv"}
    assert named("a") == {"a/x.csv", "a/b/x.csv"}
    assert named("a*/x.csv") == {"a/x.csv", "ab/x.csv"}
    assert named("*") == {"a/x.csv", "a/b/x.csv", "ab/x.csv"}
