"""Uses environment servers that the hub did not start, at their addresses."""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from rollouthub.errors import ConfigError, CredentialError, HubError, ServerGone, raise_first_error
from rollouthub.hosting.client.remote_host import RemoteHost
from rollouthub.hosting.client.server_connection import ServerConnection, ServerFault, connect
from rollouthub.hosting.client.server_replicas import ReplicatedHost
from rollouthub.hosting.launch import TOKEN_VARIABLE
from rollouthub.models.address import is_loopback, normal_base_url
from rollouthub.protocols import EnvironmentHost, EnvironmentInfo

logger = logging.getLogger(__name__)

HEALTH_SECONDS = 5.0
PATIENCE_SECONDS = 30.0
"""Seconds to wait for a lost server to answer again."""
PROBE_SECONDS = 5.0
"""Seconds between two health checks of each of several servers."""
_PAUSE_SECONDS = 0.5


class Attached:
    """A server that the hub did not start: checked when a call fails, and waited for when it does not answer."""

    def __init__(self, address: str, patience_seconds: float) -> None:
        self._address, self._patience_seconds = address, patience_seconds
        self._connection: ServerConnection | None = None
        self._info: EnvironmentInfo | None = None
        self._is_suspect = False
        self._looking = anyio.Lock()

    def suspect(self) -> None:
        """Have the server checked before its next use."""
        self._is_suspect = True

    async def meet(self, connection: ServerConnection) -> EnvironmentInfo:
        """Read the description of the served environment.

        Raises:
            UsageError: no server answers, it refuses the credential, or it speaks another contract.
        """
        try:
            self._info = await connection.info()
        except CredentialError as error:
            raise CredentialError(f"{self._address} refuses the credential in {TOKEN_VARIABLE}: {error}") from error
        except ServerFault as error:
            raise ConfigError(f"no environment is served at {self._address}: {error}") from error
        except ConfigError as error:
            raise ConfigError(f"{self._address}: {error}") from error
        self._connection, self._is_suspect = connection, False
        return self._info

    @property
    def is_up(self) -> bool:
        """Whether the server can be used now, as far as is known."""
        return not self._is_suspect

    async def watch(self) -> None:
        """Check the server at intervals, so that the failure and the return of one of several servers is noticed
        soon.
        """
        assert self._connection is not None
        while True:
            try:
                await self.connection()
            except ServerGone as error:
                logger.warning("%s; others are asked until it is", error)
            await anyio.sleep(PROBE_SECONDS)
            if not self._is_suspect and not await self._connection.is_healthy(HEALTH_SECONDS):
                self._is_suspect = True

    async def connection(self) -> ServerConnection:
        """The connection to the server, once it answers.

        Raises:
            ServerGone: the server did not come back, or now serves another environment.
        """
        assert self._connection is not None
        async with self._looking:
            if self._is_suspect:
                await self._look_again(self._connection)
                self._is_suspect = False
        return self._connection

    async def _look_again(self, connection: ServerConnection) -> None:
        assert self._info is not None
        try:
            with anyio.fail_after(self._patience_seconds):
                while not await connection.is_healthy(HEALTH_SECONDS):  # noqa: ASYNC110  # nothing tells us
                    await anyio.sleep(_PAUSE_SECONDS)
            info = await connection.info()
        except TimeoutError:
            raise ServerGone(
                f"the server at {self._address} is gone, and was not back after {self._patience_seconds:g} s"
            ) from None
        except HubError as error:
            raise ServerGone(f"the server at {self._address} is back, but: {error}") from error
        if (info.name, info.digest, info.tools_digest) != (
            self._info.name,
            self._info.digest,
            self._info.tools_digest,
        ):
            raise ServerGone(f"the server at {self._address} serves another environment, or version of it, than before")


@asynccontextmanager
async def attach(
    addresses: Sequence[str],
    token: str | None,
    patience_seconds: float = PATIENCE_SECONDS,
    *,
    agent_url: str | None = None,
) -> AsyncGenerator[EnvironmentHost]:
    """Use the server at `http://HOST:PORT` or `unix:PATH`, or several that serve the same environment.

    With `agent_url`, a seat that is elsewhere is a fault of the server's.

    Raises:
        UsageError: no server answers, the credential is missing or refused, it speaks another contract, or two servers
            serve different environments.
    """
    async with AsyncExitStack() as stack:
        servers = {address: Attached(address, patience_seconds) for address in addresses}
        infos = {
            address: await server.meet(await stack.enter_async_context(_reach(address, token, server, agent_url)))
            for address, server in servers.items()
        }
        if len(servers) == 1:
            (server,), (info,) = servers.values(), infos.values()
            yield RemoteHost(info.model_copy(update={"isolation": "process"}), server)
            return
        host = ReplicatedHost(infos, list(servers.values()))
        async with raise_first_error(), anyio.create_task_group() as tasks:
            for server in servers.values():
                tasks.start_soon(server.watch)
            yield host
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _reach(
    address: str, token: str | None, server: Attached, agent_url: str | None
) -> AsyncGenerator[ServerConnection]:
    """Open a connection to the server at an address.

    Raises:
        CredentialError: there is no credential, or the address contains one.
    """
    if token is None:
        raise CredentialError(
            f"the server at {address} wants its control credential; "
            f"set {TOKEN_VARIABLE} (`hub serve env` says where it keeps it)"
        )
    if not address.startswith("unix:"):
        address = normal_base_url(address, is_wire=False)
        if address.startswith("http:") and not is_loopback(address):
            logger.warning("the credential in %s is sent unencrypted to %s", TOKEN_VARIABLE, address)
    async with connect(address, token, on_fault=server.suspect, agent_url=agent_url) as connection:
        yield connection
