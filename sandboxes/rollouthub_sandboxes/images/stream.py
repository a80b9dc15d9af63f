"""Builds and pulls: the engine's two calls that take minutes, as streams that stop when cancelled."""

import base64
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
from anyio import to_thread

from rollouthub.errors import SandboxError, said
from rollouthub_sandboxes.engine.address import TCP_PORT, TLS_PORT, Address
from rollouthub_sandboxes.engine.engine import Engine, EngineError

Say = Callable[[str], None]
KEPT_LINES = 30


class BuildFailed(SandboxError):
    """A step of a build failed; trying again would not help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class Progress:
    """The output of a build or pull: the current step and the last lines."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.step = ""
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)

    def add(self, text: str) -> None:
        """Add a piece of the engine's output."""
        for line in text.splitlines():
            shown = line.strip()
            if not shown:
                continue
            if shown.lower().startswith("step "):
                self.step = shown
            self.lines.append(shown)
            self._say(shown)

    @property
    def tail(self) -> str:
        """The last lines, indented."""
        return "\n".join(f"    {line}" for line in self.lines)


async def build(
    engine: Engine,
    context: Path,
    *,
    dockerfile: str,
    tag: str,
    arguments: Mapping[str, str],
    labels: Mapping[str, str],
    network: str,
    progress: Progress,
) -> None:
    """Build an image from a packed context with the engine's own builder.

    Raises:
        BuildFailed: a step failed.
        EngineError: the engine refused or broke off.
    """
    options = {
        "t": tag,
        "dockerfile": dockerfile,
        "buildargs": json.dumps(dict(arguments)),
        "labels": json.dumps(dict(labels)),
        "networkmode": network,
        "rm": "1",
        "forcerm": "1",
    }
    headers = {"Content-Type": "application/x-tar"}
    with context.open("rb") as body:
        async with _post(engine, "/build", options, headers, body) as answer:
            async for event in _events(answer):
                progress.add(str(event.get("stream") or event.get("status") or ""))
                if error := event.get("error"):
                    step = f" at {progress.step!r}" if progress.step else ""
                    raise BuildFailed(f"failed{step}: {str(error).strip()}\n{progress.tail}")


async def pull(engine: Engine, name: str, progress: Progress) -> None:
    """Pull an image from its registry, with the user's own credentials for that registry.

    Raises:
        EngineError: there is no such image, or its registry cannot be reached.
    """
    last = name.rpartition("/")[2]
    has_tag = ":" in last or "@" in last
    headers = await to_thread.run_sync(_credentials, name)
    options = {"fromImage": name if has_tag else f"{name}:latest"}
    async with _post(engine, "/images/create", options, headers, None) as answer:
        async for event in _events(answer):
            if error := event.get("error"):
                raise EngineError(str(error).strip(), answer.status)
            progress.add(str(event.get("status") or ""))


@asynccontextmanager
async def _post(
    engine: Engine, path: str, options: Mapping[str, str], headers: Mapping[str, str], body: Any
) -> AsyncGenerator[aiohttp.ClientResponse]:
    # How long it may take is its caller's to say; a silent engine is met by that deadline, too.
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    try:
        url, connector = _connection(engine.address)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.post(f"{url}{path}", params=options, headers=headers, data=body) as answer,
        ):
            if answer.status >= 400:
                raise EngineError(_reason(await answer.text()), answer.status)
            yield answer
    except (aiohttp.ClientError, OSError) as error:
        raise EngineError(
            f"{engine.name} at {engine.address.url} broke off: {said(error)}; is it still running?"
        ) from error


def _connection(address: Address) -> tuple[str, aiohttp.BaseConnector]:
    parts = urlsplit(address.url)
    if parts.scheme == "unix":
        return "http://engine", aiohttp.UnixConnector(parts.path)
    context = address.tls()
    if context is None:
        return f"http://{parts.hostname}:{parts.port or TCP_PORT}", aiohttp.TCPConnector()
    return f"https://{parts.hostname}:{parts.port or TLS_PORT}", aiohttp.TCPConnector(ssl=context)


async def _events(answer: aiohttp.ClientResponse) -> AsyncGenerator[dict[str, Any]]:
    """The JSON objects of a response, one per line; lines may be longer than aiohttp's limit."""
    rest = b""
    async for piece in answer.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield json.loads(line)
    if rest.strip():
        yield json.loads(rest)


def _reason(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip()[:500]


def _credentials(name: str) -> dict[str, str]:
    """The header that logs in to an image's registry with the user's Docker settings; may run a credential helper."""
    from docker import auth
    from docker.errors import DockerException

    untyped = cast(Any, auth)
    try:
        found = untyped.load_config().resolve_authconfig(untyped.resolve_repository_name(name)[0])
    except DockerException as error:
        raise EngineError(f"the credentials for {name!r} could not be had: {said(error)}") from error
    if not found:
        return {}
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(found).encode()).decode()}
