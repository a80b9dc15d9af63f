"""Tests in the agent's own container where that is asked for, and tests that need a network they do not have."""

from pathlib import Path

import pytest

from rollouthub.errors import SandboxError, SandboxOverrun, VerifierError
from rollouthub_sandboxes.engine.engine import connect_engine
from rollouthub_servers.terminal import Terminal, TerminalConfig
from tests.mcp_servers.containers import Open

SERVE = """\
cat > /tmp/serve.pl <<'END'
use IO::Socket;
my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1:8765", ReuseAddr => 1);
open F, ">/tmp/ready"; close F;
while (my $client = $server->accept) { print $client "hello\\n"; close $client }
END
perl /tmp/serve.pl >/dev/null 2>&1 &
while [ ! -e /tmp/ready ]; do sleep 0.05; done
"""
ASK = 'exec 3<>/dev/tcp/127.0.0.1/8765 && read -r said <&3 && [ "$said" = hello ]'
REWARD = "if {check}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"


def made(folder: Path, check: str, verifier: str = "", agent: str = "") -> TerminalConfig:
    """A task whose tests are one check."""
    for path, text in {
        "instruction.md": "Serve.",
        "tests/test.sh": REWARD.format(check=check),
        "task.toml": (
            '[environment]\ndocker_image = "debian:bookworm-slim"\nnetwork_mode = "no-network"\nmemory_mb = 256\n'
            f"[agent]\n{agent}[verifier]\ntimeout_sec = 30\n{verifier}"
        ),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return TerminalConfig(data=str(folder))


@pytest.mark.parametrize(
    ("verifier", "setting", "reward"),
    [
        ('environment_mode = "shared"\n', "auto", 1.0),
        ("", "auto", 0.0),
        pytest.param('environment_mode = "shared"\n', "fresh", 0.0, marks=pytest.mark.soak),
        pytest.param("", "shared", 1.0, marks=pytest.mark.soak),
        pytest.param('environment_mode = "separate"\n', "shared", 0.0, marks=pytest.mark.soak),
    ],
)
async def test_a_server_that_is_left_running_is_seen_where_tests_share_the_container(
    play: Open, tmp_path: Path, verifier: str, setting: str, reward: float
) -> None:
    config = made(tmp_path, ASK, verifier).model_copy(update={"verifier": setting})
    async with play(Terminal, config) as player:
        await player.bash(SERVE)
        score = await player.end()
    assert score.reward == reward, score.feedback
    is_live = reward == 1.0
    assert score.metrics["graded_in_place"] == is_live
    assert (score.metadata["crossed"] == "in place") is is_live
    assert ("graded in the agent's own container" in (score.feedback or "")) is is_live


async def test_an_agent_of_its_own_name_is_graded_in_place_by_root(play: Open, tmp_path: Path) -> None:
    check = f'[ "$(id -u)" = 0 ] && {ASK}'
    config = made(tmp_path, check, 'environment_mode = "shared"\n', 'user = "nobody"\n')
    async with play(Terminal, config) as player:
        assert "nobody" in await player.bash("id -un")
        await player.bash(SERVE)
        assert "Permission denied" in await player.bash("touch /usr/planted")
        assert (await player.end()).reward == 1.0


async def test_tests_that_keep_no_word_in_place_are_the_agents_zero(play: Open, tmp_path: Path) -> None:
    async with play(Terminal, made(tmp_path, ASK, 'environment_mode = "shared"\n')) as player:
        await player.bash("rm -f /bin/bash /bin/sh /usr/bin/bash /usr/bin/sh")
        score = await player.end()
    assert score.reward == 0.0


async def test_a_container_that_the_engine_ends_in_place_is_nobodys_zero(play: Open, tmp_path: Path) -> None:
    async with play(Terminal, made(tmp_path, ASK, 'environment_mode = "shared"\n')) as player:
        sandbox = player.episode.environment.sandbox
        async with connect_engine() as engine:
            await engine.call(engine.api.kill, sandbox.id)
        with pytest.raises(SandboxError, match="killed from outside") as caught:
            await player.end()
    assert not isinstance(caught.value, SandboxOverrun)


async def test_tests_that_need_a_network_whatever_they_run_on_are_a_fault_that_names_the_host(
    play: Open, tmp_path: Path
) -> None:
    config = made(tmp_path, "echo hello > /dev/tcp/192.0.2.7/80")
    async with play(Terminal, config) as player:
        with pytest.raises(VerifierError, match=r"need the network \(192\.0\.2\.7\).*verifier_network=bridge"):
            await player.end()


async def test_a_network_that_only_the_agents_work_asks_for_is_the_agents(play: Open, tmp_path: Path) -> None:
    config = made(tmp_path, "[ ! -e /work.sh ] || bash /work.sh")
    async with play(Terminal, config) as player:
        await player.bash("echo 'echo Could not resolve host: example.org; exit 1' > /work.sh")
        score = await player.end()
    assert score.reward == 0.0
