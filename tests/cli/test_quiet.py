"""`-q`: nothing but warnings and errors, on stderr; with `--json` the JSON on stdout."""

import json
from pathlib import Path

import pytest

from rollouthub.store import open_run

from .conftest import Hub

TWO = ("-m", "mock/solver", "-m", "mock/solver?accuracy=0.5")


@pytest.mark.parametrize(
    "command",
    [
        ("run", "arithmetic", "--limit", "2", "--repeats", "2", "-o", "other"),
        ("compare", "arithmetic", *TWO, "--limit", "2", "-o", "both"),
        ("compare", "arithmetic", *TWO, "--limit", "2", "-o", "both.html"),
        ("estimate", "arithmetic", "-m", "mock/solver", "--sample", "2", "--limit", "4"),
        ("score", "run", "-o", "again"),
        ("score", "lines.jsonl", "--env", "arithmetic", "-o", "again.jsonl"),
    ],
)
def test_a_quiet_command_that_went_well_prints_nothing_but_json(
    hub: Hub, tmp_path: Path, command: tuple[str, ...]
) -> None:
    assert hub("run", "arithmetic", "-m", "mock/solver", "--limit", "2", "-o", "run", "-q").out == ""
    with open_run(tmp_path / "run") as reader:
        lines = [json.dumps({"task_id": row.task_id, "completion": "7"}) for row in reader.summaries()]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines))
    quiet = hub(*command, "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    again = [word.replace("other", "third").replace("both", "three").replace("again", "once-more") for word in command]
    told = hub(*again, "-q", "--json")
    assert (told.code, told.err) == (0, "")
    assert isinstance(told.json, dict)


@pytest.mark.parametrize(
    ("command", "warning"),
    [
        (
            ("run", "arithmetic", "-m", "mock/solver?fail=1", "--retries", "0"),
            "2 of 2 rollouts have no score; hub show run",
        ),
        (("compare", "arithmetic", "-m", "mock/solver", "-m", "mock/solver?fail=1"), "2 of 2 rollouts have no score"),
    ],
)
def test_a_quiet_command_warns_of_what_has_no_score(hub: Hub, command: tuple[str, ...], warning: str) -> None:
    done = hub(*command, "--limit", "2", "-o", "run", "-q")
    assert (done.code, done.out) == (1, "")
    assert warning in done.err
    assert all(line.startswith("warning: ") for line in done.err.splitlines())
