"""What is said of runs and rollouts at the prompt, in this process, of runs that are always the same."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rollouthub import Outcome
from rollouthub.store.notes import NoteChange, add
from rollouthub_tui.settings import load_settings, settings_path
from rollouthub_tui.text.vocabulary import WORDS, find_word
from tests.store.records import record, write
from tests.tui.made import MIDWAY, playing_run
from tests.tui.text.conftest import Listener, is_plain, listening


async def opened(listener: Listener, name: str = "good") -> str:
    """What is said of a run that is opened."""
    return await listener.types(f"open {name}")


async def test_runs_are_listed_and_opened_by_their_numbers(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        said = await listener.types("runs")
        assert said.startswith("2 runs, 0 of them live.\n1: good, finished, 96 of 96 done, mean reward 0.")
        assert "\n2: worse, finished" in said
        assert (await listener.types("open 2")).startswith("Run worse: finished, everything planned was played.\n")
        assert "the list has numbers from 1 to 2" in await listener.types("runs") + await listener.types("open 3")


async def test_a_run_is_told_in_labelled_lines_the_most_telling_first(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        lines = (await opened(listener)).splitlines()
    assert lines[0] == "Run good: finished, everything planned was played."
    assert [line.partition(":")[0] for line in lines[1:6]] == [
        "done", "mean reward", "strict mean reward", "pass rate", "coverage",
    ]  # fmt: skip
    assert lines[1].startswith("done: 96 of 96, 100.0%, ")
    assert "endings: 89 scored, 2 agent failures, 3 infrastructure faults, 1 verifier fault, 1 cancelled" in lines
    assert "retried: 3 attempts" in lines
    assert any(line.startswith("environment code: 30 of 32 samples scored, pass rate ") for line in lines)
    assert all(": " in line for line in lines)


async def test_errors_say_what_broke_and_are_gone_through(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        await opened(listener)
        lines = (await listener.types("errors")).splitlines()
        assert lines[0] == "7 rollouts of 96, newest first, errors only."
        assert len(lines) == 8
        assert lines[1].startswith("1: agent failed, agent AgentError, unscored, customer_service task ")
        assert not any("reward" in line for line in lines[1:])
        first = await listener.types("next")
        assert "customer_service-07-2" in first
        assert "agent failure: agent_failed, unscored" in first
        assert "customer_service-07-1" in await listener.types("n")
        assert "customer_service-07-2" in await listener.types("previous")
        assert await listener.types("best") == "nothing that is listed has a reward\n"


async def test_a_filter_narrows_and_a_wrong_one_says_where(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        await opened(listener)
        said = await listener.types('rollouts outcome == "cancelled" or fault ~ "sandbox"')
        assert said.startswith("2 rollouts of 96, newest first, filter ")
        assert "1: cancelled, hub Cancelled, unscored" in said
        assert "sandbox failed, sandbox SandboxError, unscored" in said
        wrong = await listener.types("rollouts rewrd < 1")
        assert wrong.startswith("That is not a filter, at character 1 of it: no column is named 'rewrd'; did you mean")


async def test_a_conversation_is_read_turn_by_turn(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        await opened(listener)
        said = await listener.types("open arithmetic-00-0")
        assert said.startswith("arithmetic, arithmetic/test/0, sample 0, arithmetic-00-0\nreward ")
        first = (await listener.types("show")).splitlines()
        assert first[0].startswith("turn 1, ")
        assert "user: How much is 17 × 4? Give the number alone." in first
        assert any(line.startswith("call calculate, ") and ", error, " in line for line in first)
        assert "error, 25 bytes: no such operator: 'times'" in first
        assert first[-1] == "There is more: more reads on."
        assert (await listener.types("")).startswith("turn 2, "), "an empty line reads on"
        await listener.types("more")
        assert "ended, " in await listener.types("more")
        assert await listener.types("more") == "there is no more of it\n"


async def test_score_and_times_are_facts(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        await opened(listener)
        await listener.types('rollouts environment == "code" and passed')
        score = await listener.types("show 1 score")
        assert score.startswith("reward: 0.")
        assert "component tests: 0.800, which is value 1 times weight 0.8\n" in score
        assert "Feedback of the verifier\n" in score + await listener.types("more")
        await listener.types("open arithmetic-05-0")
        unscored = await listener.types("show score")
        assert "reward: there is none: unscored, which is not 0, What the rollout ran on broke.\n" in unscored
        times = (await listener.types("show timings")).splitlines()
        assert times[0].startswith("total: ")
        assert any(line.startswith("turn 1, model: ") and line.endswith("after the start") for line in times)


async def test_something_is_found_in_a_run_and_in_a_rollout(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        await opened(listener)
        said = await listener.types("find geometric")
        assert said.startswith("32 rollouts of 96, newest first, transcripts /geometric/.\n")
        assert "found in turn 1: " in said
        await listener.types("open 1")
        within = (await listener.types("find GIVE UP|All pass")).splitlines()
        assert within[0] == "1 found."
        assert within[1].startswith("turn 3, agent: ")


async def test_tasks_lead_to_their_rollouts(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        await opened(listener)
        lines = (await listener.types("tasks")).splitlines()
        assert lines[0].startswith("24 tasks, the hardest first")
        rates = [float(line.partition("pass rate ")[2].partition("%")[0]) for line in lines[1:21]]
        assert rates == sorted(rates)
        task = lines[3].partition("task ")[2].partition(":")[0]
        said = (await listener.types("open 3")).splitlines()
        assert said[0] == f"4 rollouts of 96, newest first, task {task}."
        assert all(f"task {task}, " in line for line in said[1:])


async def test_two_runs_are_compared(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        await listener.types("runs")
        lines = (await listener.types("compare 1 2")).splitlines()
    assert lines[0].startswith("A good, ")
    assert lines[2].startswith("B minus A -0.")
    assert any(line.startswith(("worse: ", "lower: ")) for line in lines)


async def test_a_run_that_plays_says_what_is_in_flight(tmp_path: Path) -> None:
    async with playing_run(tmp_path / "runs" / "on"), listening(tmp_path / "runs", clock=lambda: MIDWAY) as listener:
        said = await opened(listener, "on")
        assert "in flight: 12: 2 in queued, 2 in setup, 2 in model, 2 in tool, 2 in verify, 2 in close\n" in said
        lines = (await listener.types("rollouts")).splitlines()
        assert "12 of them in flight" in lines[0]
        assert lines[1].startswith("1: in flight in ")
        assert "it plays on workshop; its hub can be reached only there" in await listener.types("cancel 1")
        assert "the run's hub has not answered yet" in await listener.types("machines")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("cancel arithmetic-05-0", "the run is over: nothing of it plays"),
        ("retry arithmetic-05-0", "the run is over; `hub run --resume -o DIRECTORY` plays again what is unscored"),
        ("pause", "the run is over: nothing of it plays"),
        ("concurrency 0", "'0' is no number of episodes: a number from 1 to 10,000, please"),
        ("say 1", "say what to whom? Say a number, an id or this, and then the words"),
        ("open 1", "1 is a number of a list of rollouts: rollouts, errors or find makes one"),
        ("open code-05-", "'code-05-' could be several: code-05-0, code-05-1, code-05-2, code-05-3"),
        ("open nobody", "no rollout is named 'nobody'; a number is that of a list, which rollouts makes"),
        ("cancel", "no rollout is open: rollouts lists them, open and a number opens one"),
        ("rollots", "no word is named 'rollots'; did you mean 'rollouts' or 'follow'? help lists them."),
        ("find (", "That is not a regular expression, at character 1 of it: missing ), unterminated subpattern"),
    ],
)
async def test_what_cannot_be_done_is_said_and_why(made_runs: Path, command: str, reason: str) -> None:
    async with listening(made_runs / "runs") as listener:
        await opened(listener)
        assert await listener.types(command) == f"{reason}\n"


async def test_one_is_told_to_open_a_run_first(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        assert await listener.types("rollouts") == "no run is open: runs lists them, open and a number opens one\n"
        assert await listener.types("back") == "These are the runs; quit leaves.\n"


async def test_back_goes_from_a_rollout_to_its_run_and_to_the_runs(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        await opened(listener)
        await listener.types("worst")
        assert (await listener.types("back")).startswith("Run good: ")
        assert (await listener.types("back")).startswith("2 runs, ")


def test_first_letters_never_mean_a_word_that_changes_a_run_where_one_only_looks() -> None:
    meant = {letter: find_word(letter).name for letter in "rombenptwshfcq"}
    assert meant == {
        "r": "runs", "o": "open", "m": "more", "b": "back", "e": "errors", "n": "next", "p": "previous",
        "t": "tasks", "w": "worst", "s": "show", "h": "help", "f": "find", "c": "compare", "q": "quit",
    }  # fmt: skip
    assert [find_word(word.name) for word in WORDS] == list(WORDS)
    assert find_word("ret").name == "retry"


async def test_help_tells_of_every_word(made_runs: Path) -> None:
    async with listening(made_runs / "runs") as listener:
        said = await listener.types("help") + await listener.types("more")
        assert [word.usage for word in WORDS if f"{word.usage}: {word.meaning}" not in said] == []
        assert "task ~" in await listener.types("help rollouts")


async def test_lines_can_be_wanted_always(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    async with listening(tmp_path, environ=environ) as listener:
        await listener.types("always")
        assert load_settings(environ).text
        await listener.types("always off")
        assert not load_settings(environ).text
        settings_path(environ).unlink()
        settings_path(environ).mkdir()
        assert "is not remembered" in await listener.types("always")


async def test_a_run_that_is_damaged_newer_or_gone_is_told_of_in_words(tmp_path: Path) -> None:
    for name in ("damaged", "newer", "gone"):
        await write(tmp_path / "runs" / name, [record("g1-0"), record("g1-1", outcome=Outcome.MODEL_FAILED)])
    async with listening(tmp_path / "runs") as listener:
        await opened(listener, "gone")
        (tmp_path / "runs" / "gone" / "run.db").unlink()
        said = await listener.types("errors")
        assert said.startswith("The run cannot be read now: ")
        assert "1: model failed" in said, "what was read before is told"
        (tmp_path / "runs" / "damaged" / "run.db").write_bytes(b"no database" * 100)
        with closing(sqlite3.connect(tmp_path / "runs" / "newer" / "run.db")) as connection, connection:
            connection.execute("PRAGMA user_version = 9")
        listed = await listener.types("runs")
        assert listed.count("cannot be read: ") == 2, listed
        for name in ("damaged", "newer"):
            said = await opened(listener, name)
            assert name in said and said.count("\n") == 1, said
    assert is_plain(listener.heard)


async def test_notes_are_told_of_a_rollout_and_in_lists(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "noted"
    await write(run, [record("a-0"), record("b-0")])
    async with listening(tmp_path / "runs") as listener:
        await opened(listener, "noted")
        assert "noted" not in await listener.types("open a-0")
        assert await listener.types("show notes") == "nothing is noted\n"
        change = NoteChange("a-0", tags=("reward hack",), star=True, comment="look\x1b[31m\u202e here\nand there")
        add(run, change, NoteChange("a-0", turn=1, reviewed=True), by="anna")
        await listener.types("back")
        listed = await listener.types("rollouts starred")
        assert "\n1: " in listed
        assert "starred, tagged reward hack, 1 comment" in listed
        assert "\n2: " not in listed
        assert "\nnoted: starred, tagged reward hack, 1 comment; show notes reads them\n" in await listener.types(
            "open 1"
        )
        lines = (await listener.types("show notes")).splitlines()
    assert lines[:2] == ["starred", "tags: reward hack"]
    assert lines[2].startswith("anna, ")
    assert lines[2].endswith(" UTC: look here")
    assert lines[3].strip() == "and there"
    assert lines[4].startswith("turn 1: reviewed by anna (")
    assert is_plain(listener.heard)
