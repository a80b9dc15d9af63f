"""`hub serve`: a family of commands, and short for `hub serve agents`."""

import json
import re
import subprocess
import sys

import pytest

from rollouthub.processes import HUB

from .conftest import Hub

FAMILY = ["agents", "env", "model", "mock", "rewards", "stdio", "registry"]


def test_the_help_lists_the_family_a_line_each(hub: Hub) -> None:
    lines = re.findall(r"^│ (\w+) +(\S.*\S) +│$", hub("serve", "--help", COLUMNS="80").out, re.MULTILINE)
    assert [name for name, _ in lines] == sorted(FAMILY)
    assert all(text.endswith(".") for _, text in lines)


def test_an_environment_is_served_to_agents(hub: Hub) -> None:
    short, full = hub("serve", "nosuch"), hub("serve", "agents", "nosuch")
    assert "no environment is named 'nosuch'" in full.refused()
    assert short.refused() == full.refused()


def test_an_option_first_is_one_of_serve_agents(hub: Hub) -> None:
    assert "no environment is named 'nosuch'" in hub("serve", "--seed", "1", "nosuch").refused()


def test_nothing_to_serve_is_refused_with_what_there_is(hub: Hub) -> None:
    assert "hub serve --help" in hub("serve").refused()


def test_a_mock_model_says_in_json_where_it_is() -> None:
    with subprocess.Popen(
        [*HUB, "serve", "mock", "--port", "0", "--json"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            said = json.loads(server.stdout.readline())
        finally:
            server.terminate()
    assert said["model"] == "mock/solver"
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*/v1", said["url"])


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["show", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = f"""
import sys
from rollouthub.cli.main import app
try:
    app({words!r}, standalone_mode=False)
except SystemExit:
    pass
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(sorted(loaded & {{"aiohttp", "anyio", "mcp", "ray", "docker", "textual", "numpy"}}))
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_help_loads_no_command() -> None:
    code = """
import sys
from rollouthub.cli.main import app
try:
    app(["--help"], standalone_mode=False)
except SystemExit:
    pass
print([name for name in sys.modules if name.startswith("rollouthub") and name.endswith(".command")])
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
