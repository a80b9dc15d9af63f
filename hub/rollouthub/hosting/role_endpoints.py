"""Role models for environments in processes of their own: they get an address of the hub's, and no provider's key."""

import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from rollouthub.generation import Model
from rollouthub.hosting.launch import RoleEndpoint

_ROLE_KEY = "ROLLOUTHUB_ROLE_KEY"


@asynccontextmanager
async def serve_roles(models: Mapping[str, Model]) -> AsyncGenerator[dict[str, RoleEndpoint]]:
    """Serve models on loopback, each under its role and with a key of its own."""
    async with AsyncExitStack() as stack:
        endpoints: dict[str, RoleEndpoint] = {}
        if models:
            from rollouthub.models.mock.mock_server import (  # aiohttp's server, and only where needed
                ModelServer,
                listening,
            )

            for role, model in models.items():
                key = secrets.token_urlsafe(24)
                server = ModelServer(model, (role,), key, is_mock=False)
                port = await stack.enter_async_context(listening(server, "127.0.0.1", 0))
                endpoints[role] = RoleEndpoint(
                    model=model.name, served_name=role, base_url=f"http://127.0.0.1:{port}/v1", api_key=key
                )
        yield endpoints


@asynccontextmanager
async def ask_role(endpoint: RoleEndpoint) -> AsyncGenerator[Model]:
    """A role's model as the process sees it that was given its address."""
    from rollouthub.models.config import ModelConfig
    from rollouthub.models.credentials import Credentials
    from rollouthub.models.direct.lane import Endpoint, open_direct  # aiohttp, as above

    where = Endpoint(endpoint.served_name, endpoint.base_url, _ROLE_KEY, endpoint.api_key, dialect="vllm")
    redact = Credentials({_ROLE_KEY: endpoint.api_key}).redact
    async with open_direct(ModelConfig(name=endpoint.model, max_tries=1), where, redact=redact) as model:
        yield model
