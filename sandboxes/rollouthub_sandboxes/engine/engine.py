"""The container engine: finds it, connects to it, calls its client in threads, and maps its errors to the hub's."""

import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

import anyio
from anyio import CapacityLimiter, to_thread

from rollouthub.errors import SandboxError, said
from rollouthub.plugins.extras import pip_install
from rollouthub.sandbox import ProviderUnavailable
from rollouthub_sandboxes.engine.address import Address, addresses
from rollouthub_sandboxes.engine.api import EngineApi, Json

CONNECT_SECONDS, CALL_SECONDS, SLOW_SECONDS = 2.0, 60, 600
"""Seconds to answer a ping, to answer a call, and to answer a call that copies a whole file system."""
CALLS_AT_ONCE = 24
TRIES, PAUSE_SECONDS = 3, 0.2
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}

P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger(__name__)


class NoEngine(ProviderUnavailable):
    """No container engine answers, or docker-py is missing or cannot talk to it."""


class EngineError(SandboxError):
    """The engine refused a call or did not answer it; `status` is its HTTP status, None without an answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class EngineAway(EngineError):
    """The engine no longer answers at its address, or closed the connection: it was stopped or is restarting."""


class Engine:
    """A container engine that has answered, and the calls to it."""

    def __init__(self, address: Address, api: EngineApi, slow_api: EngineApi, version: Json) -> None:
        components: list[Json] = version.get("Components") or []
        is_podman = any("podman" in str(component.get("Name", "")).lower() for component in components)
        self.address, self.api = address, api
        self.slow_api = slow_api
        """The same client with a timeout of ten minutes, for calls that copy whole file systems."""
        self.kind = "podman" if is_podman else "docker"
        self.name = f"{self.kind} {str(version.get('Version', '')).partition('+')[0]}"
        """Kind and version, such as `docker 20.10.24` or `podman 4.3.1`."""
        self.architecture = ARCHITECTURES.get(str(version.get("Arch")), str(version.get("Arch")))
        """Architecture in the words of `uname -m`: `x86_64`, `aarch64`."""
        self._limiter = CapacityLimiter(CALLS_AT_ONCE)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make one blocking call of the engine's client in a thread.

        It ends within the client's timeout. A cancelled caller waits for its end, so that a resource it created is
        known.

        Raises:
            EngineError: the engine refused the call, or did not answer in time.
        """
        return await self._in_thread(partial(function, *args, **kwargs), _named(function, args), is_awaited=True)

    async def call_again(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Like `call`, but tried up to three times where the engine fails: only for calls that may be repeated.

        A cancelled caller does not wait for its end.

        Raises:
            EngineError: the engine refused the call, or did not answer in time.
        """
        what, call = _named(function, args), partial(function, *args, **kwargs)
        for attempt in range(1, TRIES):
            try:
                return await self._in_thread(call, what, is_awaited=False)
            except EngineError as error:
                if error.status is not None and error.status < 500:
                    raise
                logger.debug("try %d of %d: %s", attempt, TRIES, error)
            await anyio.sleep(PAUSE_SECONDS * attempt)
        return await self._in_thread(call, what, is_awaited=False)

    async def _in_thread(self, call: Callable[[], T], what: str, *, is_awaited: bool) -> T:
        return await to_thread.run_sync(self._run, what, call, limiter=self._limiter, abandon_on_cancel=not is_awaited)

    def _run(self, what: str, call: Callable[[], T]) -> T:
        from docker.errors import APIError, DockerException
        from requests.exceptions import RequestException, Timeout

        started = time.monotonic()
        try:
            return call()
        except APIError as error:
            reason = error.explanation or str(error)
            raise EngineError(f"{self.name} refused {what}: {str(reason).strip()}", error.status_code) from error
        except Timeout as error:
            waited = time.monotonic() - started
            raise EngineError(f"{self.name} did not answer {what} within {waited:.0f} s; is it well?") from error
        except (RequestException, OSError) as error:
            raise EngineAway(
                f"{self.name} at {self.address.url} broke off {what}: {said(error)}; is it still running?"
            ) from error
        except DockerException as error:
            raise EngineError(f"{self.name} could not be asked for {what}: {said(error)}") from error


def _named(function: object, arguments: tuple[object, ...]) -> str:
    """A call as an error message names it: the function and its text arguments."""
    names = ", ".join(argument[:80] for argument in arguments if isinstance(argument, str))
    return f"{getattr(function, '__name__', 'a call')}({names})"


@asynccontextmanager
async def connect_engine(environment: Mapping[str, str] | None = None) -> AsyncGenerator[Engine]:
    """Connect to the first engine that answers: only `DOCKER_HOST` where it is set, else Docker's socket, then
    Podman's.

    Raises:
        NoEngine: no engine answers within two seconds, or docker-py is not installed.
        ConfigError: `DOCKER_HOST` has a form that is not supported.
    """
    tried: list[str] = []
    for address in addresses() if environment is None else addresses(environment):
        problem = await ping(address)
        if problem is None:
            break
        tried.append(f"{address.url} ({problem})")
    else:
        raise NoEngine(
            f"no container engine answers{': ' + ', '.join(tried) if tried else ''}; start docker or podman, "
            "or name its socket in DOCKER_HOST"
        )
    engine = await to_thread.run_sync(_connect, address)
    try:
        yield engine
    finally:
        for api in (engine.api, engine.slow_api):
            await to_thread.run_sync(api.close)


async def ping(address: Address) -> str | None:
    """Why no engine answers at an address, checked without a client library; None where one answers."""
    try:
        with anyio.fail_after(CONNECT_SECONDS):
            reader, writer = await address.open()
            try:
                writer.write(b"GET /_ping HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n")
                status = await reader.readline()
            finally:
                writer.close()
    except TimeoutError:
        return f"no answer within {CONNECT_SECONDS:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return None if b" 200 " in status else f"answered {status[:60]!r}"


def _connect(address: Address) -> Engine:
    try:
        import docker
        from docker.errors import DockerException
        from docker.tls import TLSConfig
    except ImportError as error:
        raise NoEngine(
            f"a container engine answers at {address.url}, but its client is not installed; {pip_install('docker')}"
        ) from error
    folder = address.certificates
    tls: Any = False
    if folder is not None:
        tls = TLSConfig(
            client_cert=(str(folder / "cert.pem"), str(folder / "key.pem")), ca_cert=str(folder / "ca.pem"), verify=True
        )

    def client(seconds: int) -> EngineApi:
        options: dict[str, Any] = {"timeout": seconds, "version": "auto", "max_pool_size": CALLS_AT_ONCE, "tls": tls}
        return cast(EngineApi, docker.APIClient(base_url=address.url, **options))

    try:
        api = client(CALL_SECONDS)
        return Engine(address, api, client(SLOW_SECONDS), api.version())
    except (DockerException, OSError) as error:
        raise NoEngine(f"the container engine at {address.url} cannot be spoken to: {said(error)}") from error
