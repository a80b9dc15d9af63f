"""The external agent on this machine as it is: what a program is given, how it ends, and that nothing of it stays."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from rollouthub import Limits, Outcome, Rollout, Stop
from rollouthub.errors import ConfigError
from rollouthub.limits import Deadlines
from rollouthub.processes import guarded
from tests.agents.external_stage import OWN_AGENT, external, stage

SUBMIT = """
import json, os, urllib.request
def call(name, arguments, headers={}):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": arguments, "_meta": meta}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
    request = urllib.request.Request(os.environ["ROLLOUTHUB_AGENT_URL"], json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())
"""
"""What scripts of these tests begin with: MCP in nine lines."""


def script(text: str) -> list[str]:
    """A command that runs a text in Python."""
    return [sys.executable, "-I", "-S", "-c", SUBMIT + text]


async def play(
    command: list[str], *, limits: Limits | None = None, has_model: bool = True, **settings: object
) -> Rollout:
    """Play one sum with a command of this machine."""
    async with stage(external(command=command, sandbox="none", **settings)) as made:
        if not has_model:
            made.model = None
        return await made.play(limits=limits)


def is_there(path: str) -> bool:
    """Whether a path leads anywhere."""
    return os.path.lexists(path)


async def test_a_program_that_finds_its_two_urls_is_scored_and_leaves_its_turns() -> None:
    rollout = await play(["python3", OWN_AGENT.name], files=str(OWN_AGENT))
    assert (rollout.outcome, rollout.stop, rollout.reward) == (Outcome.SCORED, Stop.FINISHED, 1.0)
    assert [call.name for turn in rollout.turns for call in turn.tool_calls] == ["calculate"]
    assert all(turn.prompt_token_ids and turn.output_token_ids for turn in rollout.turns)
    assert rollout.trainable, rollout.trainable_reason


async def test_a_program_without_a_model_submits_what_it_found() -> None:
    told = 'call("submit", {"answer": call("calculate", {"expression": "1 + 1"})["result"]["content"][0]["text"]})'
    rollout = await play(script(told), has_model=False)
    assert (rollout.stop, rollout.answer, rollout.reward) == (Stop.SUBMITTED, "2", 0.0)


async def test_a_program_is_told_its_episode_and_nothing_of_the_hubs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PROVIDER_KEY", "secret")
    monkeypatch.setenv("WANTED", "yes")
    await play(
        [
            "sh",
            "-c",
            f"env -0 > {tmp_path}/env; cat prompt.txt > {tmp_path}/prompt; pwd > {tmp_path}/pwd; ls -A > {tmp_path}/ls",
        ],
        env={"PLACE": "at {home}", "BRACES": "{{home}}"},
        pass_env="WANTED",
    )
    pairs = (entry.partition("=") for entry in (tmp_path / "env").read_text().split("\0") if entry)
    found = {name: value for name, _, value in pairs if name not in ("PWD", "OLDPWD", "SHLVL", "_")}
    token, home = found["ROLLOUTHUB_API_KEY"], found["HOME"]
    assert len(token) >= 32
    base = found["ROLLOUTHUB_AGENT_URL"].removesuffix(f"/e/{token}/mcp")
    prompt = (tmp_path / "prompt").read_text()
    assert prompt.startswith("What is ")
    assert found == {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": home,
        "ROLLOUTHUB_AGENT_URL": f"{base}/e/{token}/mcp",
        "ROLLOUTHUB_LLM_URL": f"{base}/llm/{token}/v1",
        "ROLLOUTHUB_API_KEY": token,
        "ROLLOUTHUB_MODEL": "mock/solver",
        "ROLLOUTHUB_PROMPT": prompt,
        "ROLLOUTHUB_PROMPT_FILE": f"{home}/prompt.txt",
        "OPENAI_BASE_URL": f"{base}/llm/{token}/v1",
        "OPENAI_API_KEY": token,
        "ANTHROPIC_BASE_URL": f"{base}/llm/{token}",
        "ANTHROPIC_API_KEY": token,
        "PLACE": f"at {home}",
        "BRACES": "{home}",
        "WANTED": "yes",
    }
    assert (tmp_path / "pwd").read_text().strip() == home
    assert (tmp_path / "ls").read_text() == "prompt.txt\n"
    assert not is_there(home), "the folder outlived its episode"


async def test_a_prompt_reaches_the_command_line_as_one_word_that_no_shell_reads(tmp_path: Path) -> None:
    write = f"import json, sys; json.dump(sys.argv[1:], open({str(tmp_path / 'argv')!r}, 'w'))"
    await play([sys.executable, "-I", "-S", "-c", write, "{prompt}", "{{prompt}}", "$HOME;`id`", "a{model}b"])
    prompt, *others = json.loads((tmp_path / "argv").read_text())
    assert prompt.startswith("What is ")
    assert prompt.endswith("last thing you say.")
    assert others == ["{prompt}", "$HOME;`id`", "amock/solverb"]


async def test_a_program_that_fails_is_the_agents_failure_with_its_last_words() -> None:
    text = 'import sys; sys.stderr.write("\\x1b[2Jno way, " + os.environ["ROLLOUTHUB_API_KEY"]); sys.exit(3)'
    rollout = await play(script(text))
    assert (rollout.outcome, rollout.score) == (Outcome.AGENT_FAILED, None)
    assert [fault.message for fault in rollout.faults] == ["the program ended with exit status 3: no way, [token]"]


async def test_the_last_line_of_a_long_traceback_comes_first() -> None:
    deep = """
import traceback
def f(n):
    return f(n - 1) if n % 2 else g(n)
def g(n):
    return f(n - 1) if n else [][0]
f(299)
"""
    rollout = await play(script(f"exec({deep!r})"))
    (fault,) = rollout.faults
    first, second, *_, last = fault.message.splitlines()
    assert first == "the program ended with exit status 1: IndexError: list index out of range"
    assert second == "its last words:"
    assert last == "IndexError: list index out of range"
    assert 2000 < len(fault.message) < 2200


async def test_a_program_that_is_killed_says_by_which_signal() -> None:
    rollout = await play(["sh", "-c", "kill -SEGV $$"])
    assert [fault.message for fault in rollout.faults] == ["the program ended with signal 11"]


async def test_a_program_that_fails_after_it_has_submitted_is_scored() -> None:
    rollout = await play(script('call("submit", {"answer": "5"}); raise SystemExit(9)'))
    assert (rollout.outcome, rollout.stop, rollout.reward, rollout.faults) == (Outcome.SCORED, Stop.SUBMITTED, 0.0, ())


async def test_a_limit_ends_a_program_and_is_scored() -> None:
    rollout = await play(["python3", OWN_AGENT.name], files=str(OWN_AGENT), limits=Limits(max_turns=1))
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, Stop.TURN_LIMIT)


async def test_after_the_episode_a_program_has_its_grace_and_no_more(tmp_path: Path) -> None:
    late = f"open({str(tmp_path / 'late')!r}, 'w').close(); time.sleep(1000)"
    rollout = await play(script(f'import time; call("submit", {{"answer": "5"}}); {late}'), grace_seconds=2)
    assert (rollout.stop, rollout.faults) == (Stop.SUBMITTED, ())
    assert (tmp_path / "late").exists()


class Victim:
    """A process that has left its parent's session, and holds a pipe open for as long as it lives."""

    def __init__(self, folder: Path) -> None:
        self.pipe = folder / "pipe"
        os.mkfifo(self.pipe)
        self._reader = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)

    @property
    def line(self) -> str:
        """Shell that starts it, twice removed from the program, and waits for nothing."""
        alive = f"exec 9>{self.pipe}; echo alive >&9; exec sleep 1000"
        return f"(setsid sh -c '{alive}' </dev/null >/dev/null 2>&1 &) ; "

    async def is_alive(self) -> None:
        """Wait until it says so."""
        with anyio.fail_after(60):
            await anyio.wait_readable(self._reader)
        assert os.read(self._reader, 100) == b"alive\n"

    async def is_dead(self) -> None:
        """Wait until nobody holds the pipe."""
        with anyio.fail_after(60):
            await anyio.wait_readable(self._reader)
        assert os.read(self._reader, 100) == b""
        os.close(self._reader)


@pytest.mark.parametrize("end", ["timeout", "deadline", "exit"])
async def test_a_program_is_killed_with_all_it_started(tmp_path: Path, end: str) -> None:
    victim = Victim(tmp_path)
    # The program goes on until the victim has been seen alive.
    (tmp_path / "gate").touch()
    stays = "sleep 1000" if end != "exit" else f"while [ -e {tmp_path}/gate ]; do sleep 0.02; done"
    settings: dict[str, object] = {"timeout_seconds": 3} if end == "timeout" else {}
    agent = external(command=["sh", "-c", victim.line + stays], sandbox="none", **settings)
    rollouts: list[Rollout] = []
    async with stage(agent) as made, anyio.create_task_group() as group:

        async def run() -> None:
            rollouts.append(await made.play(deadlines=Deadlines(agent=3) if end == "deadline" else None))

        group.start_soon(run)
        await victim.is_alive()
        (tmp_path / "gate").unlink()
    await victim.is_dead()
    assert rollouts[0].outcome == (Outcome.SCORED if end == "exit" else Outcome.AGENT_FAILED)
    if end == "timeout":
        assert "had not ended after 3 s" in rollouts[0].faults[0].message


async def test_a_flood_of_output_is_read_and_little_of_it_kept() -> None:
    rollout = await play(["sh", "-c", "head -c 20000000 /dev/zero; echo the end >&2; exit 4"], stdout_bytes=1000)
    assert [fault.message for fault in rollout.faults] == ["the program ended with exit status 4: the end"]


async def test_files_lie_where_the_program_starts(tmp_path: Path) -> None:
    folder = tmp_path / "kit"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "run.sh").write_text("#!/bin/sh\nexit 7\n")
    (folder / "deep" / "run.sh").chmod(0o755)
    rollout = await play(["kit/deep/run.sh"], files=[str(folder)])
    assert [fault.message for fault in rollout.faults] == ["the program ended with exit status 7"]


async def test_a_folder_of_an_episode_is_its_owners_alone(tmp_path: Path) -> None:
    await play(["sh", "-c", f"stat -c %a . > {tmp_path}/mode"])
    assert stat.filemode(int((tmp_path / "mode").read_text(), 8)) == "?rwx------"


async def test_a_missing_program_is_told_before_the_first_episode() -> None:
    with pytest.raises(ConfigError, match="no program 'no-such-agent' in this machine"):
        async with stage(external(command="no-such-agent {agent_url}", sandbox="none")):
            pass


async def test_a_profile_that_is_not_installed_is_met_with_the_command_that_installs_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no program '/no/codex'.*npm install -g @openai/codex@0\.169\.0"):
        async with stage(external(profile="codex", program="/no/codex", sandbox="none")):
            pass
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho it has no such module >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(ConfigError, match=r"does not run: it has no such module.*pip install openai-agents==0\.24\.0"):
        async with stage(external(profile="openai-agents", program=str(broken), sandbox="none")):
            pass


async def test_another_version_than_the_one_tested_is_run_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "codex"
    other.write_text("#!/bin/sh\necho codex-cli 0.170.0\n")
    other.chmod(0o755)
    async with stage(external(profile="codex", program=str(other), sandbox="none")) as made:
        assert (await made.play()).outcome is Outcome.SCORED
    assert "tested with version 0.169.0; this is 'codex-cli 0.170.0'" in caplog.text


async def test_a_prompt_too_long_for_a_command_line_is_the_commands_failure() -> None:
    rollout = await play(["echo", "{prompt}" * 4000])
    assert rollout.outcome is Outcome.AGENT_FAILED
    assert [fault.message for fault in rollout.faults] == ["the program could not be started: Argument list too long"]


def test_a_killed_hub_leaves_nothing_running(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    line = f"(setsid sh -c 'exec 9>{pipe}; echo alive >&9; exec sleep 1000' &) ; sleep 1000"
    hub = f"""
import os, subprocess, sys
subprocess.Popen({guarded(["sh", "-c", line])!r}, stdin=subprocess.PIPE)
open({str(pipe)!r}).readline()
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", hub], check=False, timeout=60)
    os.set_blocking(reader, True)
    with os.fdopen(reader, "rb") as left:
        assert left.read() in (b"", b"alive\n")  # an end: nobody is left to write


async def test_a_program_that_asks_a_model_needs_one() -> None:
    rollout = await play(["echo", "{llm_url}"], has_model=False)
    assert [fault.message for fault in rollout.faults] == [
        "'echo' asks a model, and the run has none; name one with -m"
    ]
