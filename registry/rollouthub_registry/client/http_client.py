"""HTTP requests to one registry, limited in time and size, and never redirected to another host."""

import errno
import json
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import anyio
from yarl import URL

from rollouthub.http.loopback import is_local_host
from rollouthub.text import one_line
from rollouthub_registry.client.client_error import Missing, RegistryFault, RegistryRefused, TokenRefused
from rollouthub_registry.client.offer import Progress
from rollouthub_registry.client.upload_form import Form

_CHUNK = 2**16
_PROBLEM_BYTES = 2**16
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_LONGEST_RETRY_SECONDS = 86_400


@dataclass(frozen=True)
class Patience:
    """How long a registry is waited for."""

    connect_seconds: float = 10.0
    answer_seconds: float = 30.0
    """Most seconds until an answer begins; the same is granted for every body, whatever its length."""
    slowest_bytes_per_second: float = 16 * 2**10
    """Bytes per second below which a transfer is given up."""
    examining_seconds: float = 120.0
    """Most seconds from the end of an upload to its answer."""


PATIENCE = Patience()


class RegistryHttpClient:
    """Makes HTTP requests to one registry."""

    def __init__(self, session: aiohttp.ClientSession, url: str, patience: Patience) -> None:
        self._session, self._url, self._patience = session, url, patience
        self._proxy = _proxy(url)

    async def read(self, path: str, most_bytes: int) -> bytes:
        """The content of a document.

        Raises:
            Missing: there is no such document.
            RegistryFault: the document cannot be fetched.
        """
        return await self._collected("GET", path, most_bytes)

    async def read_json(self, path: str, most_bytes: int) -> Any:
        """The content of a JSON document.

        Raises:
            Missing: there is no such document.
            RegistryFault: the document cannot be fetched, or is no JSON.
        """
        return self._parsed(await self.read(path, most_bytes))

    async def copy(self, path: str, target: Path, most_bytes: int, progress: Progress | None = None) -> None:
        """Download a document to a new file, which is removed if the download fails.

        Raises:
            Missing: there is no such document.
            RegistryFault: the document cannot be fetched.
        """
        async with await anyio.open_file(target, "xb") as file:
            try:

                async def take(chunk: bytes) -> None:
                    await file.write(chunk)

                await self._receive("GET", path, take, most_bytes, progress=progress)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await anyio.Path(target).unlink()
                raise

    async def ask(self, method: str, path: str, token: str, most_bytes: int, content: Any = None) -> Any:
        """Make a request that needs a token.

        Raises:
            Missing: the registry has no such thing.
            TokenRefused: the registry does not accept the token.
            RegistryRefused: the registry refuses the request.
            RegistryFault: the registry cannot be reached, or failed.
        """
        return self._parsed(await self._collected(method, path, most_bytes, token=token, content=content))

    async def send(self, path: str, token: str, form: Form, most_bytes: int, progress: Progress | None = None) -> Any:
        """Upload files.

        Raises:
            Missing: the registry has no such address.
            TokenRefused: the registry does not accept the token.
            RegistryRefused: the registry refuses the files.
            RegistryFault: the registry cannot be reached, or failed.
        """
        return self._parsed(await self._collected("POST", path, most_bytes, token=token, form=form, progress=progress))

    async def _collected(self, method: str, path: str, most_bytes: int, **more: Any) -> bytes:
        body = bytearray()

        async def take(chunk: bytes) -> None:
            body.extend(chunk)

        await self._receive(method, path, take, most_bytes, **more)
        return bytes(body)

    async def _receive(
        self,
        method: str,
        path: str,
        take: Callable[[bytes], Awaitable[None]],
        most_bytes: int,
        *,
        token: str | None = None,
        content: Any = None,
        form: Form | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Make one request and pass the body of its answer to `take`; every byte received extends the deadline."""
        patience, now = self._patience, anyio.current_time
        with anyio.CancelScope(deadline=now() + patience.answer_seconds) as scope, self._faults():
            more: dict[str, Any] = {"headers": {"Authorization": f"Bearer {token}"} if token else {}}
            if content is not None:
                more["json"] = content
            if form is not None:
                more["headers"] |= {"Content-Type": form.content_type, "Content-Length": str(form.size)}
                more["data"] = self._sending(form, scope, progress)
            async with self._answer(method, path, more) as answer:
                await self._check(answer)
                whole, received, begun = answer.content_length, 0, now()
                if whole is not None and whole > most_bytes:
                    raise self._too_long(most_bytes)
                async for chunk in answer.content.iter_chunked(_CHUNK):
                    received += len(chunk)
                    if received > most_bytes:
                        raise self._too_long(most_bytes)
                    scope.deadline = begun + patience.answer_seconds + received / patience.slowest_bytes_per_second
                    await take(chunk)
                    if progress is not None and form is None:
                        progress(received, whole)
            return
        raise RegistryFault(f"the registry {self._url} is too slow: given up {method} {path}; try again later")

    async def _sending(self, form: Form, scope: anyio.CancelScope, progress: Progress | None) -> AsyncIterator[bytes]:
        sent = 0
        async for chunk in form.chunks():
            scope.deadline = anyio.current_time() + self._patience.answer_seconds
            yield chunk
            sent += len(chunk)
            if progress is not None:
                progress(sent, form.size)
        scope.deadline = anyio.current_time() + self._patience.examining_seconds

    @asynccontextmanager
    async def _answer(self, method: str, path: str, more: dict[str, Any]) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The head of an answer; redirects are followed only on the same host and only if nothing is uploaded."""
        address = self._url + path
        for _ in range(_MOST_REDIRECTS + 1):
            target = URL(address, encoded=True)
            async with self._session.request(
                method, target, allow_redirects=False, proxy=self._proxy, **more
            ) as answer:
                if answer.status not in _REDIRECTS:
                    yield answer
                    return
                named = answer.headers.get("Location", "")
                where = _on_the_same_host(address, named) if method == "GET" else None
                if where is None:
                    raise RegistryFault(
                        f"the registry {self._url} sends elsewhere, to {one_line(named)}; it is not followed there: "
                        "if it has moved, name the new URL"
                    )
                address = where
        raise RegistryFault(f"the registry {self._url} sends in circles: {one_line(address)}")

    async def _check(self, answer: aiohttp.ClientResponse) -> None:
        """Raise the error for an answer that is not a success."""
        status = answer.status
        if status in (200, 201):
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise RegistryFault(f"the registry {self._url} sends what was not asked for: a compressed answer")
            return
        detail = _detail(await answer.content.read(_PROBLEM_BYTES))
        said = f": {detail}" if detail else f" (HTTP {status})"
        if status == 404:
            raise Missing(f"the registry {self._url} does not have it{said}")
        if status == 401:
            raise TokenRefused(
                f"the registry {self._url} does not know who asks{said}; with a token of its keeper, "
                f"run `hub login {self._url}`"
            )
        if status == 429:
            after = _seconds(answer.headers.get("Retry-After", ""))
            when = "later" if after is None else f"in {after} s"
            raise RegistryFault(f"the registry {self._url} was asked too often{said}; try again {when}", after)
        if 400 <= status < 500:
            raise RegistryRefused(f"the registry {self._url} refuses it{said}", status)
        raise RegistryFault(f"the registry {self._url} cannot do it now{said}")

    @contextmanager
    def _faults(self) -> Generator[None]:
        """Turn connection errors into `RegistryFault`, with what to do about them."""
        try:
            yield
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError) as error:
            raise RegistryFault(
                f"the registry {self._url} is not trusted: its TLS certificate does not hold ({one_line(str(error))}); "
                "where it is your own, name its authority in SSL_CERT_FILE"
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise RegistryFault(
                f"the registry {self._url} cannot be reached: {_reason(error.os_error)}; see that the URL is right and "
                "that it is up"
            ) from error
        except aiohttp.ConnectionTimeoutError as error:
            seconds = self._patience.connect_seconds
            raise RegistryFault(
                f"the registry {self._url} cannot be reached: no connection within {seconds:g} s; see that the URL is "
                "right, and whether a proxy is needed"
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            told = one_line(str(error)) or type(error).__name__
            raise RegistryFault(f"the registry {self._url} broke off: {told}; try again") from error

    def _parsed(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise RegistryFault(f"what answers at {self._url} is no registry: it says no JSON") from None

    def _too_long(self, most_bytes: int) -> RegistryFault:
        return RegistryFault(f"the registry {self._url} sends more than {most_bytes:,} bytes, which nothing there has")


@asynccontextmanager
async def exchanging(url: str, patience: Patience) -> AsyncGenerator[RegistryHttpClient]:
    """Open an HTTP client for one registry, with its own connections."""
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=patience.connect_seconds),
        headers={"User-Agent": f"rollouthub/{version('rollouthub')}", "Accept-Encoding": "identity"},
    ) as session:
        yield RegistryHttpClient(session, url, patience)


def _reason(error: OSError) -> str:
    """Why a connection failed, in the system's words."""
    if error.errno is not None and error.errno > 0 and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return one_line(error.strerror or str(error))


def _on_the_same_host(address: str, location: str) -> str | None:
    """The target of a redirect; None if it is another host or there is none."""
    if not (location.isascii() and location.isprintable()) or " " in location:
        return None
    try:
        where = urljoin(address, location)
        old, new = urlsplit(address), urlsplit(where)
        same = (old.scheme, old.hostname, old.port) == (new.scheme, new.hostname, new.port)
    except ValueError:
        return None
    return where if same and "@" not in new.netloc else None


def _proxy(url: str) -> str | None:
    """The proxy for a host, from the user's environment variables."""
    parts = urlsplit(url)
    if not parts.hostname or is_local_host(parts.hostname) or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def _detail(body: bytes) -> str:
    """The reason in the body of an error response, if it has one."""
    try:
        said: Any = json.loads(body)
        detail: Any = said["detail"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""
    return one_line(detail) if isinstance(detail, str) else ""


def _seconds(text: str) -> int | None:
    return min(int(text), _LONGEST_RETRY_SECONDS) if text.isascii() and text.isdigit() and len(text) < 10 else None
