"""Makes Harbor tasks by the thousand, with traits that harnesses stumble over, and plays them by plain docker.

`python -m tests.mcp_servers.harbor_synthetic FOLDER --count 3000 --seed 1` writes the tasks alone.
"""

import argparse
import random
import shlex
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

TRAITS = (
    "plain", "compose", "version", "deliverables", "slow", "network", "server", "linked", "side_car", "mcp", "allowed",
)  # fmt: skip
REFUSED = {
    "privileged": ("environment/docker-compose.yaml", "services.store.privileged"),
    "host": ("environment/docker-compose.yaml", "services.store.network_mode"),
    "mounts": ("environment/docker-compose.yaml", "services.store.volumes"),
    "gpu_types": ("task.toml", "[environment] gpu_types"),
    "elsewhere": ("task.toml", "[[environment.mcp_servers]] 'tools' url"),
}
"""Trait → file and field that the reason for refusing such a task names."""
Agent = Literal["oracle", "null"]
IMAGE = "debian:bookworm-slim"
LONGEST_COMMAND = 1
"""Seconds that a command may take where these tasks are played; `slow` solutions take longer."""
SETTINGS = {
    "network": "none",
    "verifier_network": "bridge",
    "command_seconds": str(LONGEST_COMMAND),
    "most_command_seconds": str(LONGEST_COMMAND),
    "memory_mb": "256",
}
"""What the hub is told of them."""
_SERVER = """\
cat > /tmp/serve.pl <<'END'
use IO::Socket;
my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1:{port}", ReuseAddr => 1);
open F, ">/app/ready"; close F;
while (my $client = $server->accept) {{ print $client "{answer}\\n"; close $client }}
END
perl /tmp/serve.pl >/dev/null 2>&1 &
while [ ! -e /app/ready ]; do sleep 0.05; done
"""
_STORE = """\
use IO::Socket;
my $kept = "nothing";
my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "0.0.0.0:80", ReuseAddr => 1) or die;
while (my $client = $server->accept) {
    my $line = <$client>;
    $kept = $1 if $line =~ /^set (\\S+)/;
    print $client "$kept\\n";
    close $client;
}
"""
_TELL = "exec 3<>/dev/tcp/store/80 && echo 'set {answer}' >&3 && read -r said <&3"
_LISTEN = "exec 3<>/dev/tcp/store/80 && echo get >&3 && read -r said <&3 && [ \"$said\" = '{answer}' ]"
_COMPOSE = """\
services:
  main: {{depends_on: {{store: {{condition: service_healthy}}}}}}
  store:
    image: {image}
    command: ["perl", "/store.pl"]
    volumes: ["./store.pl:/store.pl:ro"]
    healthcheck: {{test: ["CMD", "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/80"], interval: 1s, retries: 30}}
    {more}
"""
_MORE = {
    "privileged": "privileged: true",
    "host": "network_mode: host",
    "mounts": 'volumes: ["/var/run/docker.sock:/run/docker.sock"]',
}
_MCP = r"""
$| = 1;
while (<STDIN>) {
    my ($id) = /"id":\s*("[^"]*"|\d+)/ or next;
    my ($version) = /"protocolVersion":\s*"([^"]+)"/;
    my $result = "";
    my $about = q("capabilities": {"tools": {}}, "serverInfo": {"name": "made", "version": "1"});
    $result = qq({"protocolVersion": "$version", $about}) if /"initialize"/;
    $result = q({"tools": [{"name": "hint", "inputSchema": {"type": "object"}}]}) if m(tools/list);
    my $answer = $result ? qq("result": $result) : q("error": {"code": -32601, "message": "no such method"});
    print qq({"jsonrpc": "2.0", "id": $id, $answer}\n);
}
"""
_CHECK = '[ "$(cat {place} 2>/dev/null)" = "{answer}" ]'
_ASK = "exec 3<>/dev/tcp/{host}/{port} && read -r said <&3 && [ \"$said\" = '{answer}' ]"


@dataclass(frozen=True)
class Listener:
    """What tests with a network ask."""

    host: str
    port: int
    answer: str


def make_refused(folder: Path, count: int) -> dict[str, tuple[str, str]]:
    """Write tasks that cannot be played, of each kind in turn; the file and the field that each is refused for."""
    found: dict[str, tuple[str, str]] = {}
    for number in range(count):
        trait = tuple(REFUSED)[number % len(REFUSED)]
        name = f"refused-{trait}-{number:04}"
        found[name] = REFUSED[trait]
        files = _files("side_car" if trait in _MORE else "plain", random.Random(number), Listener("", 0, ""), 0)
        if trait in _MORE:
            files["environment/docker-compose.yaml"] = _COMPOSE.format(image=IMAGE, more="").replace(
                "volumes:" if trait == "mounts" else "command:",
                f"{_MORE[trait]} #" if trait == "mounts" else f"{_MORE[trait]}\n    command:",
            )
        elif trait == "gpu_types":
            files["task.toml"] = files["task.toml"].replace("[environment]\n", '[environment]\ngpu_types = ["H100"]\n')
        else:
            files["task.toml"] += (
                '[[environment.mcp_servers]]\nname = "tools"\ntransport = "http"\nurl = "https://example.com/mcp"\n'
            )
        _write(folder / "tasks" / name, files)
    return found


def _write(place: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if path.endswith(".sh") else 0o644)


def make_tasks(folder: Path, count: int, seed: int, listener: Listener | None = None, slow_seconds: float = 2) -> None:
    """Write tasks below `folder`; the same for the same numbers. `network` ones ask the listener, or nobody."""
    asked = listener or Listener("192.0.2.1", 9, "nobody")
    for number in range(count):
        trait = TRAITS[number % len(TRAITS)]
        chance = random.Random(f"{seed}/{number}")
        name = f"{trait}-{number:04}"
        place = folder / "tasks" / name
        if trait == "linked":
            place = folder / "elsewhere" / name
            (folder / "tasks").mkdir(parents=True, exist_ok=True)
            (folder / "tasks" / name).symlink_to(place)
        _write(place, _files(trait, chance, asked, slow_seconds))


def _files(trait: str, chance: random.Random, listener: Listener, slow_seconds: float) -> dict[str, str]:
    """A task's files: most are solved by their solution alone, some by nothing, and some by anything."""
    answer = str(chance.randrange(10**9))
    kind = chance.choices(("right", "wrong", "free"), (8, 1, 1))[0]
    written = answer if kind != "wrong" else f"{answer}-not"
    place = "/solution/answer.txt" if trait == "deliverables" else "/app/answer.txt"
    files: dict[str, str] = {"instruction.md": f"Write {answer} to the file {place}.\n"}
    solve, check = f"echo {written} > {place}\n", _CHECK.format(place=place, answer=answer)
    if trait == "compose":
        files["environment/docker-compose.yml"] = "services: {web: {image: example}}\n"
        files["environment/Dockerfile"] = f"FROM {IMAGE}\nWORKDIR /app\nCOPY docker-compose.yml /app/\n"
        check += " && grep -q example /app/docker-compose.yml"
    elif trait == "deliverables" and chance.random() < 0.5:
        files["solution/answer.txt"], solve = f"{written}\n", "true\n"
    elif trait == "slow":
        solve = f"sleep {slow_seconds:g}\n{solve}"
    elif trait == "network":
        check += f" && {_ASK.format(host=listener.host, port=listener.port, answer=listener.answer)}"
    elif trait == "server":
        port = chance.randrange(20_000, 30_000)
        solve = _SERVER.format(port=port, answer=written)
        check = f"[ -e /app/ready ] && {_ASK.format(host='127.0.0.1', port=port, answer=answer)}"
    elif trait == "side_car":
        files["environment/store.pl"] = _STORE
        files["environment/docker-compose.yaml"] = _COMPOSE.format(image=IMAGE, more="")
        solve, check = f"{_TELL.format(answer=written)}\n", _LISTEN.format(answer=answer)
    if kind == "free":
        check = "true"
    reward = chance.choice(("1", "0.5"))
    files["solution/solve.sh"] = f"#!/bin/bash\n{solve}"
    files["tests/test.sh"] = (
        f"#!/bin/bash\nif {check}; then reward={reward}; else reward=0; fi\necho $reward > /logs/verifier/reward.txt\n"
    )
    files["task.toml"] = _settings(trait)
    return files


def _settings(trait: str) -> str:
    version = 'version = "2.0"' if trait == "version" else 'schema_version = "1.3"'
    about = '[task]\nname = "made/by-script"\ncategory = "made"\n'
    image = "" if trait == "compose" else f'docker_image = "{IMAGE}"\n'
    verifier = "[verifier]\ntimeout_sec = 60\n"
    if trait == "server":
        verifier += 'environment_mode = "shared"\n'
    if trait == "network":
        verifier += 'network_mode = "public"\n'
    network = '"allowlist"\nallowed_hosts = ["pypi.org", "*.debian.org"]' if trait == "allowed" else '"no-network"'
    world = f'[environment]\nnetwork_mode = {network}\nworkdir = "/app"\nmemory_mb = 256\n{image}'
    if trait == "mcp":
        world += "[[environment.mcp_servers]]\nname = 'hints'\ntransport = 'stdio'\ncommand = 'perl'\n"
        world += f"args = ['-e', '''{_MCP}''']\n"
    return f"{version}\n{about}{world}[agent]\ntimeout_sec = 60\n{verifier}"


def play_by_docker(folder: Path, agent: Agent) -> float:
    """A task's reward by Harbor's own rules: its image, `/solution` and `/tests` copied in, `test.sh`, `reward.txt`."""
    settings: dict[str, Any] = tomllib.loads((folder / "task.toml").read_text())
    world, verifier = settings["environment"], settings["verifier"]
    image = world.get("docker_image") or _built(folder / "environment")
    own = ("--network", "none", "--add-host", "store:127.0.0.1", "-w", world["workdir"])
    container = _said("docker", "run", "-d", "--init", *own, image, "sleep", "600")
    beside = ""
    try:
        if (folder / "environment" / "store.pl").exists():
            beside = _said("docker", "create", "--network", f"container:{container}", IMAGE, "perl", "/store.pl")
            _said("docker", "cp", f"{folder.resolve()}/environment/store.pl", f"{beside}:/store.pl")
            _said("docker", "start", beside)
            _exec(container, "until (exec 3<>/dev/tcp/store/80) 2>/dev/null; do sleep 0.1; done")
        if agent == "oracle":
            _said("docker", "cp", f"{folder.resolve()}/solution", f"{container}:/")
            seconds = settings["agent"]["timeout_sec"]
            _exec(container, f"timeout {seconds:g} /solution/solve.sh > /tmp/solve.txt 2>&1")
        if verifier.get("network_mode") == "public":
            _said("docker", "network", "disconnect", "none", container)
            _said("docker", "network", "connect", "bridge", container)
        _exec(container, "rm -rf /tests /logs/verifier; mkdir -p /logs/verifier")
        _said("docker", "cp", f"{folder.resolve()}/tests", f"{container}:/")
        _exec(container, f"timeout {verifier['timeout_sec']:g} /tests/test.sh > /tmp/tests.txt 2>&1")
        return float(_said("docker", "exec", container, "cat", "/logs/verifier/reward.txt"))
    finally:
        _said("docker", "rm", "-fv", *filter(None, (beside, container)))


def _built(folder: Path) -> str:
    return _said("docker", "build", "-q", str(folder))


def _exec(container: str, command: str) -> None:
    subprocess.run(["docker", "exec", container, "bash", "-c", command], check=False, capture_output=True)


def _said(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
    return done.stdout.strip()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    make_tasks(given.folder, given.count, given.seed)
