"""Sandboxes in the network of another one: one loopback and one set of names, and nothing else in common."""

from typing import Any

import anyio
import pytest

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.sandbox import Resources, Sandbox, SandboxSpec
from rollouthub_sandboxes.docker.provider import DockerProvider
from rollouthub_sandboxes.engine.engine import Engine

ASK = "exec 3<>/dev/tcp/{host}/{port} && cat <&3"
SERVE = """
use IO::Socket;
my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "0.0.0.0:{port}", ReuseAddr => 1) or die;
print "up\\n"; $| = 1;
while (my $client = $server->accept) {{ print $client "hello from beside\\n"; close $client }}
"""


def spec(**settings: Any) -> SandboxSpec:
    """A small container."""
    small = Resources(memory_bytes=128 << 20, pids=64, disk_bytes=32 << 20)
    return SandboxSpec(image="debian:bookworm-slim", resources=small, **settings)


async def asked(sandbox: Sandbox, host: str, port: int) -> str:
    """What somebody at a port says."""
    return (await sandbox.exec(["bash", "-c", ASK.format(host=host, port=port)])).stdout.text


async def test_a_sandbox_beside_another_is_reached_by_name(provider: DockerProvider) -> None:
    async with (
        provider.open(spec(loopback_names=("db", "cache.internal"))) as main,
        provider.open(spec(beside=main.id)) as side,
        side.start(["perl", "-e", "$|=1;" + SERVE.format(port=80)]) as program,
    ):
        assert await anext(aiter(program.output())) == ("stdout", b"up\n")
        assert await asked(main, "db", 80) == "hello from beside\n"
        assert await asked(side, "cache.internal", 80) == "hello from beside\n"
        stream = await main.connect(80)
        assert await stream.receive() == b"hello from beside\n"
        await stream.aclose()
        assert (main.ref.network, side.ref.network) == ("none", "none")
        assert (await main.exec("ls /sys/class/net")).stdout.text == "lo\n"


async def test_nothing_but_the_network_is_shared(provider: DockerProvider, engine: Engine) -> None:
    async with provider.open(spec()) as main, provider.open(spec(beside=main.id)) as side:
        await main.write_file("/tmp/secret", b"1")
        async with side.start("exec sleep 77") as program:
            assert "sleep 77" not in (await main.exec("cat /proc/*/cmdline | tr '\\0' ' '")).stdout.text
            assert await main.stop() == 0
            assert side.is_alive
            await program.kill()
        assert (await side.exec("cat /tmp/secret")).exit_status != 0
        given = (await engine.call(engine.api.inspect_container, side.id))["HostConfig"]
        assert not given["Privileged"]
        assert given["CapDrop"]
        assert given["Memory"] == 128 << 20


async def test_a_sandbox_goes_while_those_beside_it_are_left_to_end_themselves(
    provider: DockerProvider, engine: Engine
) -> None:
    async with provider.open(spec()) as main, provider.open(spec(beside=main.id)) as side:
        name = side.id
    with anyio.fail_after(30):
        while True:
            names = [entry["Names"][0] for entry in await engine.call(engine.api.containers, all=True)]
            if f"/{name}" not in names and f"/{main.id}" not in names:
                break
            await anyio.sleep(0.1)


async def test_only_an_open_sandbox_of_this_provider_can_be_joined(provider: DockerProvider) -> None:
    with pytest.raises(SandboxError, match="no sandbox 'somebody-elses' is open"):
        async with provider.open(spec(beside="somebody-elses")):
            pass
    async with provider.open(spec()) as main:
        with pytest.raises(ConfigError, match="host names"):
            async with provider.open(spec(beside=main.id, loopback_names=("db",))):
                pass


async def test_gpus_are_refused_where_the_engine_has_none(provider: DockerProvider) -> None:
    wanted = SandboxSpec(image="debian:bookworm-slim", resources=Resources(gpus=1))
    with pytest.raises(ConfigError, match="asks for 1 GPUs"):
        async with provider.open(wanted):
            pass
