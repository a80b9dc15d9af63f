"""Role models for environments in processes of their own: they get an address of the hub's, and no provider's key."""

import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path

from yarl import URL

from rollouthub.generation import Model
from rollouthub.hosting.launch import RoleEndpoint
from rollouthub.hosting.wall.socket_folder import socket_folder
from rollouthub.hosting.wall.wall import WallChoice
from rollouthub.http.named_sockets import named_socket, new_host

_ROLE_KEY = "ROLLOUTHUB_ROLE_KEY"


@asynccontextmanager
async def serve_roles(
    models: Mapping[str, Model], folder: Path | None = None
) -> AsyncGenerator[dict[str, RoleEndpoint]]:
    """Serve models, each under its role and with a key of its own: on loopback, or on unix sockets in `folder`."""
    async with AsyncExitStack() as stack:
        endpoints: dict[str, RoleEndpoint] = {}
        if models:
            from rollouthub.models.mock.mock_server import (  # aiohttp's server, and only where needed
                ModelServer,
                listening,
            )

            for number, (role, model) in enumerate(models.items()):
                key = secrets.token_urlsafe(24)
                server = ModelServer(model, (role,), key, is_mock=False)
                socket = None if folder is None else folder / f"role-{number}.sock"
                if socket is None:
                    port = await stack.enter_async_context(listening(server, "127.0.0.1", 0))
                    host = f"127.0.0.1:{port}"
                else:
                    from rollouthub.hosting.role_socket import listening_at  # as above

                    await stack.enter_async_context(listening_at(server, socket))
                    host = new_host()
                endpoints[role] = RoleEndpoint(
                    model=model.name,
                    served_name=role,
                    base_url=f"http://{host}/v1",
                    api_key=key,
                    socket=None if socket is None else str(socket),
                )
        yield endpoints


@asynccontextmanager
async def serve_roles_for(wall: WallChoice, models: Mapping[str, Model]) -> AsyncGenerator[dict[str, RoleEndpoint]]:
    """Serve models to an installed environment: on sockets in a private folder, if there may be a wall around it."""
    if wall == "none" or not models:
        async with serve_roles(models) as endpoints:
            yield endpoints
        return
    with socket_folder() as folder:
        async with serve_roles(models, folder) as endpoints:
            yield endpoints


@asynccontextmanager
async def ask_role(endpoint: RoleEndpoint) -> AsyncGenerator[Model]:
    """A role's model as the process sees it that was given its address."""
    from rollouthub.models.config import ModelConfig
    from rollouthub.models.credentials import Credentials
    from rollouthub.models.direct.lane import Endpoint, open_direct  # aiohttp, as above

    where = Endpoint(endpoint.served_name, endpoint.base_url, _ROLE_KEY, endpoint.api_key, dialect="vllm")
    redact = Credentials({_ROLE_KEY: endpoint.api_key}).redact
    host = URL(endpoint.base_url).host
    with nullcontext() if endpoint.socket is None else named_socket(Path(endpoint.socket), host):
        async with open_direct(ModelConfig(name=endpoint.model, max_tries=1), where, redact=redact) as model:
            yield model
