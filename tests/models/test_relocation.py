"""A server that `hub serve model` keeps, and that comes back at another address, is found there."""

import time
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.registered import Registration, ServerRow, prepare_folder, registry_folder, write_registration
from rollouthub.models.resolve import open_model
from tests.models.servers import ask, mock_server

MODEL = ModelConfig(name="hosted_vllm/served")


def register(credentials: Credentials, *urls: str) -> None:
    """Write down where the servers are."""
    rows = tuple(ServerRow(number=number, state="healthy", base_url=url) for number, url in enumerate(urls))
    folder = registry_folder(credentials.get)
    prepare_folder(folder)
    write_registration(
        folder, Registration(model="served", source="x", cluster="none", servers=rows, written=time.time())
    )


async def test_calls_go_where_the_server_has_moved(tmp_path: Path) -> None:
    credentials = Credentials({"XDG_STATE_HOME": str(tmp_path)})
    async with AsyncExitStack() as second, AsyncExitStack() as first:
        url = await first.enter_async_context(mock_server())
        register(credentials, url)
        async with open_model(MODEL, credentials) as model:
            await model.generate(ask())
            await first.aclose()
            register(credentials, await second.enter_async_context(mock_server()))
            with anyio.fail_after(10):
                reply = await model.generate(ask())
            assert reply.retries == 1


async def test_all_servers_are_asked(tmp_path: Path) -> None:
    credentials = Credentials({"XDG_STATE_HOME": str(tmp_path)})
    async with mock_server() as one, mock_server() as two:
        register(credentials, one, two)
        async with open_model(MODEL, credentials) as model:
            async with anyio.create_task_group() as calls:
                for _ in range(4):
                    calls.start_soon(model.generate, ask())
            places = {(status.place, status.calls) for status in model.status()}  # pyright: ignore
            assert places == {(one, 2), (two, 2)}
