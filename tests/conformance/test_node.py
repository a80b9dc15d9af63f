"""Finding the programs for Node.js, and running them: bounded in time and talk, and dead when nobody waits."""

import json
from pathlib import Path

import anyio
import pytest

from rollouthub_registry.check.thorough import node_programs
from rollouthub_registry.check.thorough.node_programs import (
    CONFORMANCE,
    NodeTools,
    NoNodeTools,
    Unfinished,
    find_node_tools,
)

PACKAGE = "@modelcontextprotocol/conformance"


def _install(folder: Path, *, node_version: str = "v24.19.0", version: str = CONFORMANCE) -> Path:
    """A folder as npm leaves it, with a Node.js that runs its programs as shell scripts."""
    root = folder / "node_modules" / PACKAGE
    root.mkdir(parents=True)
    (root / "package.json").write_text(json.dumps({"version": version, "bin": {"conformance": "run.js"}}))
    fake = folder / "node"
    fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo {node_version} && exit\nexec /bin/sh "$@"\n')
    fake.chmod(0o755)
    return folder


async def _tools(folder: Path, script: str) -> tuple[NodeTools, Path]:
    tools = await find_node_tools(_install(folder), {"PATH": ""})
    program = tools.program(PACKAGE, CONFORMANCE)
    program.write_text(script)
    return tools, program


async def test_a_folder_given_wins_over_the_variable(tmp_path: Path) -> None:
    given, named = _install(tmp_path / "given"), _install(tmp_path / "named")
    variables = {"PATH": "", "ROLLOUTHUB_NODE_TOOLS": str(named)}
    assert (await find_node_tools(given, variables)).folder == given
    assert (await find_node_tools(None, variables)).folder == named


async def test_programs_of_the_working_folder_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(_install(tmp_path / "here"))
    with pytest.raises(NoNodeTools, match=r"no folder with the MCP project's programs is named.*--node-tools FOLDER"):
        await find_node_tools(None, {"PATH": ""})


async def test_without_the_programs_it_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(NoNodeTools, match=r"npm install '@modelcontextprotocol/conformance@0.*ROLLOUTHUB_NODE_TOOLS"):
        await find_node_tools(tmp_path, {"PATH": ""})


async def test_an_old_node_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_wheel(name: str) -> None:
        return None

    monkeypatch.setattr(node_programs, "find_spec", no_wheel)
    with pytest.raises(NoNodeTools, match=r"no Node.js is new enough \(.*/node is 20.20\)"):
        await find_node_tools(_install(tmp_path, node_version="v20.20.2"), {"PATH": ""})


async def test_another_version_than_the_pinned_one_is_not_taken(tmp_path: Path) -> None:
    tools = await find_node_tools(_install(tmp_path, version="0.1.16"), {"PATH": ""})
    with pytest.raises(NoNodeTools, match=f"is 0.1.16, not {CONFORMANCE}"):
        tools.program(PACKAGE, CONFORMANCE)


async def test_a_program_sees_none_of_our_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-4d1f")
    tools, program = await _tools(tmp_path, "env; echo $HOME; pwd; echo $1")
    home = tmp_path / "home"
    home.mkdir()
    ended = await tools.run(program, ["said"], timeout_seconds=60, folder=home)
    assert "canary-4d1f" not in ended.stdout
    assert ended.stdout.splitlines()[-3:] == [str(home), str(home), "said"]


@pytest.mark.parametrize("how", ["too slow", "cancelled"])
async def test_nothing_of_a_program_is_left_running(tmp_path: Path, how: str) -> None:
    script = "sleep 600 & echo $! > child; mv child there; wait"
    tools, program = await _tools(tmp_path, script)
    there = tmp_path / "there"

    async def run() -> None:
        seconds = 3 if how == "too slow" else 60
        with pytest.raises(Unfinished) if how == "too slow" else anyio.CancelScope():
            await tools.run(program, [], timeout_seconds=seconds, folder=tmp_path)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            while not there.exists():  # noqa: ASYNC110  # the program says so by a file
                await anyio.sleep(0.01)
            if how == "cancelled":
                tasks.cancel_scope.cancel()
        while _is_alive(int(there.read_text())):  # noqa: ASYNC110  # nobody tells of another's end
            await anyio.sleep(0.01)


async def test_a_program_that_says_too_much_is_not_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_programs, "MOST_OUTPUT", 1000)
    tools, program = await _tools(tmp_path, "head -c 500000 /dev/zero")
    with pytest.raises(Unfinished, match="said more than"):
        await tools.run(program, [], timeout_seconds=60, folder=tmp_path)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
