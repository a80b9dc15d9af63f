"""Side-cars of a compose file: reached by name, waited for, apart from the verifier, and gone with the episode."""

from pathlib import Path

import anyio
import pytest

from rollouthub.errors import TaskError
from rollouthub_sandboxes.engine.engine import connect_engine
from rollouthub_servers.terminal import Terminal, TerminalConfig
from rollouthub_servers.terminal.harbor import load_task
from rollouthub_servers.terminal.unsupported_features import refusals
from tests.mcp_servers.containers import Open

STORE = """\
use IO::Socket;
sleep 1;
my $kept = $ENV{FIRST};
my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "0.0.0.0:80", ReuseAddr => 1) or die;
while (my $client = $server->accept) {
    my $line = <$client>;
    if ($line =~ /^set (\\w+)/) { $kept = $1; open F, ">/kept.txt"; print F $kept; close F; }
    print $client "$kept\\n";
    close $client;
}
"""
ASK = "exec 3<>/dev/tcp/{host}/80 && echo '{say}' >&3 && read -r said <&3 && echo \"$said\""
COMPOSE = """\
services:
  main:
    build: {context: "${CONTEXT_DIR}"}
    depends_on: {store: {condition: service_healthy}}
    environment: [WHERE=store]
    volumes: ["./notes.txt:/app/notes.txt:ro", "${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}"]
  first:
    image: debian:bookworm-slim
    command: ["sh", "-c", "echo done"]
  store:
    image: debian:bookworm-slim
    command: perl /store.pl
    environment: {FIRST: "${GREETING:-hello}"}
    volumes: ["./store.pl:/store.pl:ro", "data:/data"]
    ports: ["8080:80"]
    networks: {default: {aliases: [db.internal]}}
    mem_limit: 64m
    depends_on: {first: {condition: service_completed_successfully}}
    healthcheck:
      test: ["CMD", "bash", "-c", "exec 3<>/dev/tcp/localhost/80"]
      interval: 30s
      retries: 3
volumes: {data: }
"""
SETTINGS = """\
[environment]
network_mode = "no-network"
workdir = "/app"
memory_mb = 128
[verifier]
timeout_sec = 30
"""


def made(folder: Path, check: str, more: str = "", compose: str = COMPOSE) -> TerminalConfig:
    """A task whose tests are one check."""
    for path, text in {
        "instruction.md": "Set the store to `works`.",
        "environment/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\n",
        "environment/docker-compose.yaml": compose,
        "environment/store.pl": STORE,
        "environment/notes.txt": "from the task\n",
        "tests/test.sh": f"if {check}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
        "task.toml": SETTINGS + more,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return TerminalConfig(data=str(folder))


def is_kept(word: str) -> str:
    """A check that the store keeps a word."""
    return f'[ "$({ASK.format(host="store", say="get")})" = {word} ]'


def why(folder: Path, compose: str) -> str:
    """What such a compose file is refused for."""
    config = made(folder, "true", compose=compose)
    return "\n".join(refusals(load_task("made", folder), config, {}))


async def test_a_side_car_is_reached_by_its_names_and_graded_as_the_agent_left_it(play: Open, tmp_path: Path) -> None:
    async with play(Terminal, made(tmp_path, is_kept("works"))) as player:
        assert "hello" in await player.bash(ASK.format(host="$WHERE", say="get"))
        assert "hello" in await player.bash(ASK.format(host="db.internal", say="get"))
        assert "from the task" in await player.bash("cat notes.txt")
        await player.bash(ASK.format(host="store", say="set works"))
        score = await player.end()
    assert score.reward == 1.0, score.feedback
    assert score.metrics["graded_in_place"] == 1.0


async def test_tests_in_a_container_of_their_own_have_side_cars_of_their_own(play: Open, tmp_path: Path) -> None:
    config = made(tmp_path, is_kept("hello")).model_copy(update={"verifier": "fresh"})
    async with play(Terminal, config) as player:
        await player.bash(ASK.format(host="store", say="set works"))
        score = await player.end()
    assert score.reward == 1.0, score.feedback
    assert score.metrics["graded_in_place"] == 0.0


async def test_what_a_side_car_holds_crosses_as_an_artifact(play: Open, tmp_path: Path) -> None:
    more = """\
environment_mode = "separate"
[[verifier.collect]]
service = "store"
command = "cp /kept.txt /collected.txt"
[[artifacts]]
source = "/collected.txt"
service = "store"
"""
    lines = more.splitlines(keepends=True)
    config = made(tmp_path, '[ "$(cat /collected.txt)" = works ]')
    settings = tmp_path / "task.toml"
    settings.write_text(settings.read_text() + "".join(lines))
    async with play(Terminal, config) as player:
        await player.bash(ASK.format(host="store", say="set works"))
        assert "No such file" in await player.bash("cat /kept.txt")
        score = await player.end()
    assert score.reward == 1.0, score.feedback
    assert score.metrics["artifact_files"] == 1.0


async def test_a_side_car_is_walled_off_and_goes_with_the_episode(play: Open, tmp_path: Path) -> None:
    async with play(Terminal, made(tmp_path, "true")) as player:
        main = player.episode.environment.sandbox.id
        assert "store.pl" not in await player.bash("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert "lo\n" in await player.bash("ls /sys/class/net")
        await player.bash("kill -9 -1; pkill perl")
        assert "hello" in await player.bash(ASK.format(host="store", say="get"))
        async with connect_engine() as engine:
            found = await engine.call(engine.api.containers, all=True)
            run = next(each for each in found if each["Names"] == [f"/{main}"])["Labels"]["rollouthub.run"]
            ours = [each["Names"][0][1:] for each in found if each["Labels"].get("rollouthub.run") == run]
            given = [(await engine.call(engine.api.inspect_container, name))["HostConfig"] for name in ours]
    beside = [each for each in given if each["NetworkMode"].startswith("container:")]
    assert len(beside) == 2
    for each in given:
        assert (each["Privileged"], each["Binds"], each["PortBindings"]) == (False, None, None)
    assert sorted(each["Memory"] for each in beside)[0] == 64 << 20
    async with connect_engine() as engine:
        with anyio.fail_after(60):
            while True:
                left = await engine.call(engine.api.containers, all=True)
                if not {each["Names"][0][1:] for each in left} & set(ours):
                    break
                await anyio.sleep(0.1)


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("command: [sh, -c, 'echo no port left; exit 3']", "not healthy"),
        ("command: [no-such-program]", "could not be started"),
    ],
    ids=["ends", "missing"],
)
async def test_a_side_car_that_does_not_come_up_is_the_tasks_fault(
    play: Open, tmp_path: Path, store: str, said: str
) -> None:
    compose = f"""\
services:
  store:
    image: debian:bookworm-slim
    {store}
    healthcheck: {{test: ["CMD", "false"], interval: 1s, retries: 1}}
"""
    with pytest.raises(TaskError, match=rf"docker-compose.yaml: services.store .*{said}"):
        async with play(Terminal, made(tmp_path, "true", compose=compose)):
            pass


@pytest.mark.parametrize(
    ("service", "field"),
    [
        ("privileged: true", "services.db.privileged = True"),
        ("cap_add: [SYS_ADMIN]", "cap_add = ['SYS_ADMIN']"),
        ("devices: [/dev/kvm]", "services.db.devices"),
        ("network_mode: host", "services.db.network_mode = 'host'"),
        ("pid: host", "services.db.pid = 'host'"),
        ("ipc: host", "services.db.ipc"),
        ("userns_mode: host", "services.db.userns_mode"),
        ("security_opt: [seccomp:unconfined]", "services.db.security_opt"),
        ("extra_hosts: ['a:1.2.3.4']", "services.db.extra_hosts"),
        ("volumes: ['/var/run/docker.sock:/var/run/docker.sock']", "services.db.volumes: /var/run/docker.sock:"),
        ("volumes: ['../../other:/x']", "services.db.volumes: ../../other:/x"),
        ("volumes: ['~/.ssh:/x']", "services.db.volumes: ~/.ssh:/x"),
        ("volumes: ['shared:/x']", "services.db.volumes: shared:/x"),
        ("networks: [back]", "services.*.networks"),
        ("build: {context: /etc}", "services.db.build"),
        ("build: {context: ., dockerfile: ../../Dockerfile}", "services.db.build"),
        ("env_file: /etc/passwd", "services.db.env_file"),
        ("environment: [SOME_API_KEY]", """--set 'passes=["SOME_API_KEY"]'"""),
        ("command: 'echo ${SOME_API_KEY}'", """--set 'passes=["SOME_API_KEY"]'"""),
        ("command: 'echo ${A:-${B:-b}}'", "without braces inside"),
        ("depends_on: [nobody]", "services.db.depends_on: there is no service 'nobody'"),
        ("depends_on: [web]", "in a circle"),
        ("shm_size: 2g", "services.db.shm_size"),
        ("secrets: [key]", "services.db.secrets"),
        ("deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}", "reservations.devices"),
    ],
)
def test_what_is_not_offered_is_refused_by_its_field(tmp_path: Path, service: str, field: str) -> None:
    compose = f"""\
services:
  web: {{image: "debian:bookworm-slim", depends_on: [db], volumes: ["shared:/y"]}}
  db:
    image: debian:bookworm-slim
    {service}
volumes: {{shared: }}
networks: {{back: }}
"""
    assert field in why(tmp_path, compose)
    assert "environment/docker-compose.yaml" in why(tmp_path, compose)


def test_a_file_that_is_no_compose_file_is_refused_in_words(tmp_path: Path) -> None:
    assert "cannot be read" in why(tmp_path / "a", "services: [")
    assert "services" in why(tmp_path / "b", "version: '3'\n")
    assert "include" in why(tmp_path / "c", "include: [other.yaml]\nservices: {main: {}}\n")
    assert "services.db has neither image nor build" in why(tmp_path / "d", "services: {db: {}}\n")
