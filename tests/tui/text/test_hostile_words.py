"""Whatever a run holds: every word says it in printable text and newlines alone, and draws nothing."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from tests.tui.test_hostile import Said, runs, write
from tests.tui.text.conftest import is_plain, listening

WORDS = (
    "runs", "open 1", "rollouts", "more", "open 1", "show", "more", "more", "show score", "more", "show timings",
    "find .", "find o", "next", "previous", "best", "worst", "tasks", "open 1", "errors", "open 1", "show", "more",
    "find e", "machines", "summary", "more", "follow", "cancel 1", "back", "back", "compare 1 1", "more", "help open",
)  # fmt: skip


async def say_all(said: Said) -> str:
    """Everything that is said of a run of these."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await write(folder / "runs" / "run", said)
        async with listening(folder / "runs") as listener:
            for word in WORDS:
                await listener.types(word)
            return listener.heard


@settings(max_examples=1, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(said=runs)
async def test_every_word_about_a_rude_run_is_plain(said: Said) -> None:
    assert is_plain(await say_all(said))


@pytest.mark.soak
@settings(max_examples=60)
@given(said=runs)
async def test_every_word_about_many_rude_runs_is_plain(said: Said) -> None:
    assert is_plain(await say_all(said))


async def test_a_run_in_which_everybody_attacks_is_told_of_in_plain_words(made_runs: Path) -> None:
    async with listening(made_runs / "hostile") as listener:
        for word in WORDS:
            await listener.types(word)
    assert is_plain(listener.heard)
    assert "owned" in listener.heard, "what was only written about is still there"
    assert max(map(len, listener.heard.splitlines())) <= 1000
