"""The container engine: found, connected to, and called from threads, with its errors made ours in one place."""

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
from rollouthub_sandboxes.docker.address import Address, addresses
from rollouthub_sandboxes.docker.api import EngineApi, Json

CONNECT_SECONDS, CALL_SECONDS, SLOW_SECONDS = 2.0, 60, 600
"""For an engine to say that it is there; for a call; for one that copies a whole file system."""
CALLS_AT_ONCE = 24
TRIES, PAUSE_SECONDS = 3, 0.2
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}

P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger(__name__)


class NoEngine(ProviderUnavailable):
    """No container engine answers, or none can be spoken to for want of its client."""


class EngineError(SandboxError):
    """The engine refused a call or did not answer it; `status` is its HTTP status, None where there was no answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class EngineAway(EngineError):
    """Nobody answers where the engine was, or it broke off: it was stopped, or is being started again."""


class Engine:
    """A container engine that answered."""

    def __init__(self, address: Address, api: EngineApi, slow_api: EngineApi, version: Json) -> None:
        components: list[Json] = version.get("Components") or []
        is_podman = any("podman" in str(component.get("Name", "")).lower() for component in components)
        self.address, self.api = address, api
        self.slow_api = slow_api
        """The same calls with ten minutes to answer, for those that copy whole file systems."""
        self.kind = "podman" if is_podman else "docker"
        self.name = f"{self.kind} {str(version.get('Version', '')).partition('+')[0]}"
        """Such as `docker 20.10.24` or `podman 4.3.1`."""
        self.architecture = ARCHITECTURES.get(str(version.get("Arch")), str(version.get("Arch")))
        """As `uname -m` says it: `x86_64`, `aarch64`."""
        self._limiter = CapacityLimiter(CALLS_AT_ONCE)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """One blocking call of the engine's client, in a thread.

        It ends within the client's own timeout and is not abandoned by a cancellation before, so that whoever made
        something knows of it.

        Raises:
            EngineError: it was refused, or not answered in time.
        """
        return await self._in_thread(partial(function, *args, **kwargs), _named(function, args), is_awaited=True)

    async def call_again(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `call`, tried up to three times where the engine is at fault: only for what may be done twice.

        A cancellation does not wait for its end either: who asks anew learns as much.

        Raises:
            EngineError: it was refused, or not answered in time.
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
    """A call as a message names it; only texts, since the rest is long."""
    names = ", ".join(argument[:80] for argument in arguments if isinstance(argument, str))
    return f"{getattr(function, '__name__', 'a call')}({names})"


@asynccontextmanager
async def connect_engine(environment: Mapping[str, str] | None = None) -> AsyncGenerator[Engine]:
    """The first engine that answers: `DOCKER_HOST` alone where it is set, else Docker's socket, else Podman's.

    Raises:
        NoEngine: none answers, within seconds, or docker-py is not installed.
        ConfigError: `DOCKER_HOST` has a form that is not served.
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
    """What is wrong with an address, told without loading a client library; None where an engine answers."""
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
