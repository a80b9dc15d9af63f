"""An artifact is opened from `hub watch`: the pager has the terminal and a harmless copy, and gives it back."""

from pathlib import Path

import anyio

from rollouthub.messages import digest_of
from rollouthub.score import Artifact
from rollouthub.store import open_writer
from tests.store.records import RESOLVED, record

from .test_terminal import HUB, SHOWN, runtime, watching

__all__ = ["runtime"]

RUDE = b"\x1b]0;owned\x07 plain words\n"
PAGER = """#!/bin/sh
test -t 1 || exit 1
cat "$1" > paged.txt
echo "the pager is here; press a key"
read -r _
"""


async def keep(run: Path) -> None:
    """A run whose rollout has an artifact."""
    digest = digest_of(RUDE)
    one = record("g1-0", artifacts=(Artifact(name="/out/notes.txt", digest=digest, bytes=len(RUDE)),))
    async with open_writer(run, resolved=RESOLVED, given="", resume=False) as writer:
        await writer.add(one, {digest: RUDE})


def test_an_artifact_is_shown_in_the_pager_and_the_terminal_comes_back(tmp_path: Path, runtime: Path) -> None:
    anyio.run(keep, tmp_path / "run")
    pager = tmp_path / "pager.sh"
    pager.write_text(PAGER)
    pager.chmod(0o755)
    with watching(tmp_path, program=(*HUB, "watch", "run"), PAGER=str(pager)) as (terminal, _):
        terminal.until(b"rollouts")
        terminal.type(b"2")
        terminal.until(b"test/g1")
        terminal.type(b"o")
        terminal.until(b"notes.txt")
        assert not (tmp_path / "paged.txt").exists()
        terminal.type(b"\r")
        terminal.until(b"the pager is here")
        assert (tmp_path / "paged.txt").read_text().endswith("plain words\n")
        assert "\x1b" not in (tmp_path / "paged.txt").read_text()
        start = len(terminal.seen)
        terminal.type(b"\r")
        terminal.until_after(start, SHOWN)
        terminal.type(b"\x11")
        assert terminal.end() == 0
