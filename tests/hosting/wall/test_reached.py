"""How a server behind a wall is reached: by its own sockets alone, whatever it says."""

import socket
from pathlib import Path

import anyio
import pytest
from yarl import URL

from rollouthub.generation import ModelRequest
from rollouthub.hosting.client.server_connection import ServerFault, connect
from rollouthub.hosting.launch import ServeOrder, ServerReady
from rollouthub.hosting.role_endpoints import ask_role, serve_roles_for
from rollouthub.hosting.wall.walled_start import ServerStart
from rollouthub.http.byte_forward import forwarding
from rollouthub.http.exchange import open_pool
from rollouthub.http.listener import bind_tcp, bind_unix
from rollouthub.http.named_sockets import named_socket
from rollouthub.http.no_answer import NotConnected
from rollouthub.messages import Message
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel


async def answer_once(listener: socket.socket, said: bytes) -> None:
    """Answer one request on a listening socket."""
    await anyio.wait_readable(listener)
    made, _ = listener.accept()
    with made:
        await anyio.wait_readable(made)
        made.recv(65536)
        made.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(said), said))


async def test_a_named_socket_is_reached_by_its_name(tmp_path: Path) -> None:
    with bind_unix(str(tmp_path / "a.sock")) as bound, named_socket(tmp_path / "a.sock") as host:
        bound.listen()
        async with anyio.create_task_group() as tasks, open_pool() as pool:
            tasks.start_soon(answer_once, bound, b"here")
            with anyio.fail_after(10):
                assert (await pool.exchange("GET", f"http://{host}/", seconds=5)).body == b"here"
    async with open_pool() as pool:
        with pytest.raises(NotConnected):
            await pool.exchange("GET", f"http://{host}/", seconds=5)


async def test_a_link_in_the_place_of_a_named_socket_is_not_followed(tmp_path: Path) -> None:
    with bind_unix(str(tmp_path / "engine.sock")) as bound, named_socket(tmp_path / "a.sock") as host:
        bound.listen()
        (tmp_path / "a.sock").symlink_to(tmp_path / "engine.sock")
        async with open_pool() as pool:
            with pytest.raises(NotConnected):
                await pool.exchange("GET", f"http://{host}/", seconds=5)
        with pytest.raises(BlockingIOError):
            bound.accept()


async def test_a_seat_elsewhere_is_refused(tmp_path: Path) -> None:
    faults: list[int] = []
    base = "http://agents.localhost"
    async with connect("unix:/nowhere", "t", on_fault=lambda: faults.append(1), agent_url=base) as connection:
        connection.check_seat(URL("http://agents.localhost/e/TOKEN/mcp"))
        for elsewhere in (
            "http://127.0.0.1:2375/e/TOKEN/mcp",
            "http://agents.localhost:80801/x",
            "https://agents.localhost/x",
        ):
            with pytest.raises((ServerFault, ValueError)):
                connection.check_seat(URL(elsewhere))
    assert faults


def test_a_server_behind_a_wall_has_no_say_in_where_its_control_plane_is() -> None:
    said = ServerReady(name="x", control_url="http://127.0.0.1:2375", agent_url="http://127.0.0.1:2375", pid=1)
    order = ServeOrder(environment="x", control_token="t")
    assert ServerStart((), {}, order, "control.localhost").control_url(said) == "http://control.localhost"
    assert ServerStart((), {}, order).control_url(said) == said.control_url


async def test_a_role_s_model_is_asked_through_a_socket() -> None:
    request = ModelRequest(messages=(Message(role="user", content="Say it."),), timeout_seconds=10)
    async with serve_roles_for("auto", {"judge": MockModel(ModelConfig(name="mock/say?text=good"))}) as roles:
        endpoint = roles["judge"]
        assert endpoint.socket is not None
        assert "127.0.0.1" not in endpoint.base_url
        async with ask_role(endpoint) as model:
            assert (await model.generate(request)).message.content == "good"
    async with serve_roles_for("none", {"judge": MockModel(ModelConfig(name="mock/say?text=good"))}) as roles:
        assert roles["judge"].socket is None


async def test_connections_are_passed_on_to_a_socket(tmp_path: Path) -> None:
    listener = bind_tcp("127.0.0.1", 0)
    with listener, bind_unix(str(tmp_path / "a.sock")) as bound:
        bound.listen()
        port = listener.getsockname()[1]
        async with (
            forwarding(listener, tmp_path / "a.sock"),
            open_pool() as pool,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(answer_once, bound, b"passed on")
            with anyio.fail_after(10):
                assert (await pool.exchange("GET", f"http://127.0.0.1:{port}/", seconds=5)).body == b"passed on"
