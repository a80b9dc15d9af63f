"""Finding an engine: fast where none is, and with its name and machine where one is."""

import socket
from pathlib import Path

import anyio
import pytest

from rollouthub.errors import ConfigError
from rollouthub_sandboxes.engine.address import addresses
from rollouthub_sandboxes.engine.engine import Engine, EngineError, NoEngine, connect_engine


async def test_an_engine_says_what_it_is(engine: Engine) -> None:
    assert engine.name.split()[0] == engine.kind
    assert engine.name.split()[1][0].isdecimal()
    assert engine.architecture in ("x86_64", "aarch64")


async def test_a_refusal_carries_its_status(engine: Engine) -> None:
    with pytest.raises(EngineError, match="nobody-has-this") as caught:
        await engine.call_again(engine.api.inspect_image, "nobody-has-this")
    assert caught.value.status == 404


async def test_a_stale_socket_is_no_engine_and_costs_no_time(tmp_path: Path) -> None:
    stale = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(stale))
    with anyio.fail_after(1), pytest.raises(NoEngine, match="refused"):
        async with connect_engine({"DOCKER_HOST": f"unix://{stale}"}):
            pass


async def test_a_socket_that_says_nothing_is_no_engine(tmp_path: Path) -> None:
    mute = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(mute))
        listener.listen()
        with anyio.fail_after(5), pytest.raises(NoEngine, match="no answer within"):
            async with connect_engine({"DOCKER_HOST": f"unix://{mute}"}):
                pass


def test_docker_host_stands_alone() -> None:
    assert [address.url for address in addresses({"DOCKER_HOST": "tcp://there:1"})] == ["tcp://there:1"]


def test_tls_is_taken_from_dockers_variables(tmp_path: Path) -> None:
    environment = {"DOCKER_HOST": "tcp://there:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(tmp_path)}
    assert [address.certificates for address in addresses(environment)] == [tmp_path]


def test_a_form_of_address_that_is_not_served_is_refused() -> None:
    with pytest.raises(ConfigError, match="ssh://there"):
        addresses({"DOCKER_HOST": "ssh://there"})


def test_podmans_socket_of_a_user_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "podman"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "podman.sock"))
        found = [address.url for address in addresses({"XDG_RUNTIME_DIR": str(tmp_path)})]
    assert f"unix://{folder}/podman.sock" in found
