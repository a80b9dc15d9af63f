"""Two servers this project did not write, from PyPI and from npm, as environments; `.ci/foreign.sh` installs them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Submission
from tests.mcp_servers.foreign import call, hosted, make, opened, text

pytestmark = pytest.mark.live

FOREIGN = Path(os.environ.get("ROLLOUTHUB_FOREIGN", Path(__file__).parents[2] / ".ci" / "foreign"))
HUB = [sys.executable, "-c", "from rollouthub.cli.main import main; main()"]

LIBRARY = """
import json, sqlite3, sys
asked = json.load(sys.stdin)
try:
    with sqlite3.connect(f"file:{asked['workdir']}/library.db?mode=ro", uri=True) as database:
        rows = [list(row) for row in database.execute("SELECT title, year FROM books ORDER BY year")]
except sqlite3.Error as error:
    rows = str(error)
right = rows == asked["task"]["answer"]
print(json.dumps({"reward": float(right), "passed": right, "feedback": str(rows)}))
"""
BOOKS = {
    "prompt": "Make a table books(title, year) and enter Emma of 1815 and Ulysses of 1922.",
    "answer": [["Emma", 1815], ["Ulysses", 1922]],
    "reference": [
        {"name": "create_table", "arguments": {"query": "CREATE TABLE books (title TEXT, year INTEGER)"}},
        {"name": "write_query", "arguments": {"query": "INSERT INTO books VALUES ('Ulysses', 1922), ('Emma', 1815)"}},
        "Both are in.",
    ],
}

TIDY = """
import json, pathlib, sys
asked = json.load(sys.stdin)
root = pathlib.Path(asked["workdir"])
found = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
right = found == asked["task"]["answer"]
print(json.dumps({"reward": float(right), "passed": right, "metadata": {"found": found}}))
"""
DESK = {
    "prompt": "Move draft.txt into the folder done, and count its words in done/count.txt.",
    "files": {"draft.txt": "one two three", "done/.keep": ""},
    "answer": {"done/draft.txt": "one two three", "done/count.txt": "3", "done/.keep": ""},
    "reference": [
        {
            "name": "move_file",
            "arguments": {"source": "{workdir}/draft.txt", "destination": "{workdir}/done/draft.txt"},
        },
        {"name": "write_file", "arguments": {"path": "{workdir}/done/count.txt", "content": "3"}},
        "Tidy.",
    ],
}


def program(path: str) -> str:
    file = FOREIGN / path
    if not file.exists():
        pytest.skip(f"{file} is not there; run .ci/foreign.sh")
    return str(file)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """mcp-server-sqlite, from PyPI."""
    command = [program("venv/bin/mcp-server-sqlite"), "--db-path", "{workdir}/library.db"]
    return make(tmp_path / "library", server={"command": command}, verify=LIBRARY, tasks=[BOOKS])


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """@modelcontextprotocol/server-filesystem, from npm."""
    command = [program("node_modules/.bin/mcp-server-filesystem"), "{workdir}"]
    return make(tmp_path / "desk", server={"command": command}, verify=TIDY, tasks=[DESK])


def run(file: Path, *options: str) -> Any:
    command = [*HUB, "run", str(file), *options, "--json", "-q"]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["library", "desk"])
def test_the_oracle_reaches_the_maximum_and_null_the_floor(name: str, request: pytest.FixtureRequest) -> None:
    file: Path = request.getfixturevalue(name)
    played = run(file, "-a", "oracle", "--repeats", "4")
    assert (played["scored"], played["mean_reward"], played["attempt_faults"]) == (4, 1.0, {})
    assert run(file, "-a", "null")["mean_reward"] == 0.0


async def test_a_servers_refusals_are_the_agents_to_hear(library: Path, desk: Path) -> None:
    async with hosted(library) as host, opened(host, "test/0") as episode:
        assert "Database error" in text(await call(episode, "read_query", query="SELECT * FROM nowhere"))
        assert (await call(episode, "read_query", sql="x")).is_error
    assert episode.faults == []
    async with hosted(desk) as host, opened(host, "test/0") as episode:
        refused = await call(episode, "read_text_file", path=str(desk.parent / "tasks.jsonl"))
        assert refused.is_error
        assert "one two three" not in text(refused)
        assert "Access denied" in text(refused)
    assert episode.faults == []


async def test_episodes_of_one_server_share_nothing(library: Path) -> None:
    async with hosted(library) as host, opened(host, "test/0") as first, opened(host, "test/0") as second:
        for request in (await first.reference())[:2]:
            wanted = request.tool_requests[0]
            await call(first, wanted.name, **json.loads(wanted.arguments))
        assert (await first.verify(Submission())).reward == 1.0
        assert text(await call(second, "list_tables")) == "[]"
        assert (await second.verify(Submission())).reward == 0.0
