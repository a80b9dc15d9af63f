"""Allow-lists of hosts: a container reaches what its task names, through the hub's proxy, and nothing else."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rollouthub_servers.terminal import Terminal, TerminalConfig
from rollouthub_servers.terminal.allow_list import PROXY_PORT, AllowList
from rollouthub_servers.terminal.harbor import load_task
from rollouthub_servers.terminal.unsupported_features import refusals
from tests.mcp_servers.containers import Open, Player

ASK = "exec 3<>/dev/tcp/127.0.0.1/{port} && printf '{request}' >&3 && timeout 10 cat <&3"


class Answering(BaseHTTPRequestHandler):
    """Says what it was asked for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # the library's name
        body = f"path {self.path}, host {self.headers['Host']}, secret {self.headers['Proxy-Authorization']}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def serving() -> Generator[int]:
    """A web server on this machine's loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def made(folder: Path, hosts: str, check: str = "true", verifier: str = "") -> TerminalConfig:
    """A task that may reach some hosts."""
    for path, text in {
        "instruction.md": "Ask.",
        "tests/test.sh": f"if {check}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
        "task.toml": (
            '[environment]\ndocker_image = "debian:bookworm-slim"\nmemory_mb = 128\n'
            f'network_mode = "allowlist"\nallowed_hosts = {hosts}\n[verifier]\ntimeout_sec = 60\n{verifier}'
        ),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return TerminalConfig(data=str(folder), network="bridge")


async def asked(player: Player, request: str) -> str:
    """What the proxy answers to a request."""
    return await player.bash(ASK.format(port=PROXY_PORT, request=request))


async def test_a_named_host_is_reached_in_both_ways_and_no_other(play: Open, tmp_path: Path) -> None:
    config = made(tmp_path, '["localhost", "*.nowhere.invalid"]')
    config = config.model_copy(update={"private_hosts": ("127.0.0.0/8",)})
    with serving() as port:
        async with play(Terminal, config) as player:
            assert (await player.bash("ls /sys/class/net")).startswith("lo\n")
            assert f"http_proxy=http://127.0.0.1:{PROXY_PORT}" in await player.bash("env")
            plain = (
                f"GET http://localhost:{port}/a?b=1 HTTP/1.1\\r\\nHost: evil\\r\\nProxy-Authorization: x\\r\\n\\r\\n"
            )
            assert f"path /a?b=1, host localhost:{port}, secret None" in await asked(player, plain)
            tunnel = f"CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\nGET /t HTTP/1.0\\r\\nHost: h\\r\\n\\r\\n"
            said = await asked(player, tunnel)
            assert "200 Connection established" in said
            assert "path /t, host h" in said
            for host in ("127.0.0.1", "example.com", "2130706433", "localhost.example.com", "[::1]"):
                said = await asked(player, f"CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n")
                assert "403" in said, host
                assert "not among the hosts" in said, host
            assert "502" in await asked(player, "GET http://x.nowhere.invalid/ HTTP/1.1\\r\\n\\r\\n")
            assert (await player.end()).reward == 1.0


async def test_a_name_that_leads_to_a_private_address_is_not_followed(play: Open, tmp_path: Path) -> None:
    config = made(tmp_path, '["localhost", "127.0.0.1", "169.254.169.254", "10.0.0.0/8", "::1"]')
    with serving() as port:
        async with play(Terminal, config) as player:
            for host in ("localhost", "127.0.0.1", "169.254.169.254", "10.1.2.3", "[::1]"):
                said = await asked(player, f"CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n")
                assert "no public address" in said, host
            direct = await player.bash(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
            assert "refused" in direct


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET / HTTP/1.1\\r\\n\\r\\n", "400"),
        ("GET https://localhost/ HTTP/1.1\\r\\n\\r\\n", "400"),
        ("CONNECT localhost:99999 HTTP/1.1\\r\\n\\r\\n", "400"),
        ("CONNECT :80 HTTP/1.1\\r\\n\\r\\n", "400"),
        ("SSH-2.0-nothing\\r\\n\\r\\n", "400"),
        ("GET file:///etc/passwd HTTP/1.1\\r\\n\\r\\n", "400"),
    ],
)
async def test_what_is_no_request_for_a_proxy_is_told_so(
    play: Open, tmp_path: Path, request_: str, status: str
) -> None:
    async with play(Terminal, made(tmp_path, '["localhost"]')) as player:
        assert f"HTTP/1.1 {status}" in await asked(player, request_)
        flood = "head -c 100000 /dev/zero | tr '\\0' a >&3; timeout 10 cat <&3"
        assert "431" in await player.bash(f"exec 3<>/dev/tcp/127.0.0.1/{PROXY_PORT}; {flood}")


async def test_tests_may_have_an_allow_list_of_their_own(play: Open, tmp_path: Path) -> None:
    with serving() as port:
        request = f"GET http://localhost:{port}/v HTTP/1.1\\r\\n\\r\\n"
        check = f"{ASK.format(port=PROXY_PORT, request=request)} | grep -q 'path /v'"
        verifier = 'network_mode = "allowlist"\nallowed_hosts = ["localhost"]\n'
        config = made(tmp_path, '["example.com"]', check, verifier)
        config = config.model_copy(update={"private_hosts": ("127.0.0.1", "::1")})
        async with play(Terminal, config) as player:
            assert "403" in await asked(player, request)
            score = await player.end()
    assert score.reward == 1.0, score.feedback


@pytest.mark.parametrize(
    ("hosts", "host", "is_allowed"),
    [
        ("93.184.216.34", "93.184.216.34", True),
        ("93.184.216.0/24", "93.184.216.34", True),
        ("93.184.216.0/24", "93.184.217.34", False),
        ("*.example.com", "example.com", False),
        ("example.com", "sub.example.com", False),
        ("2606:2800::/32", "2606:2800::1", True),
        ("0.0.0.0/0", "127.0.0.1", False),
        ("0.0.0.0/0", "0.0.0.0", False),
        ("0.0.0.0/0", "100.64.0.1", False),
        ("0.0.0.0/0", "224.0.0.1", False),
        ("::/0", "::ffff:127.0.0.1", False),
        ("::/0", "64:ff9b::7f00:1", False),
        ("::/0", "2002:7f00:1::", False),
        ("::/0", "fe80::1", False),
    ],
)
async def test_an_address_is_reached_where_it_is_named_and_public(hosts: str, host: str, is_allowed: bool) -> None:
    try:
        found = await AllowList([hosts]).addresses(host, 80)
    except Exception as error:
        assert type(error).__name__ == "_Refused"
        found = []
    assert found == ([host] if is_allowed else [])


def test_an_allow_list_needs_a_word_of_the_user_and_holds_hosts_alone(tmp_path: Path) -> None:
    config = made(tmp_path, '["pypi.org", "*.debian.org"]')
    task = load_task("made", tmp_path)
    assert refusals(task, config, {}) == []
    (reason,) = refusals(task, config.model_copy(update={"network": None}), {})
    assert "pypi.org, *.debian.org" in reason
    assert "--set network=bridge" in reason
    for wrong in ("http://pypi.org", "pypi.org:443", "a.*.org", "*"):
        config = made(tmp_path / wrong.replace("/", "_"), f'["{wrong}"]')
        (reason,) = refusals(load_task("made", Path(config.data or "")), config, {})
        assert "[environment] allowed_hosts" in reason, wrong
