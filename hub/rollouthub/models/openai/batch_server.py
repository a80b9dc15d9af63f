"""The server's side of batches: files and batches of OpenAI's client, tried again, and nothing taken on trust."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import openai

from rollouthub.models.endpoint import Endpoint
from rollouthub.models.openai.sdk_client import failed_try
from rollouthub.models.retry import Backoff, TryFailed
from rollouthub.plugins.plain_files import read_plain
from rollouthub.text import one_line

MARK = "rollouthub_batch"
"""The key of a batch's mark in its metadata."""
ENDS = frozenset({"completed", "expired", "cancelled", "failed"})
FULL = "token_limit_exceeded"
"""The code of a batch that its server has no room for yet."""
CALL_SECONDS = 600.0
"""Seconds for one request; an upload has 200 MB."""
MOST_LISTED = 2000
"""Most batches that are looked through for one whose id was lost."""
MOST_OUTPUT_BYTES = 8 * 2**30
"""Most bytes of a batch's output."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_CONTENT_PIECE = 2**20
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class BatchState:
    """A batch as its server describes it."""

    id: str
    status: str
    counts: dict[str, int]
    files: tuple[str | None, str | None]
    """Ids of the files of answers and of errors."""
    problem: str
    """Why it failed, in the server's words."""
    is_full: bool
    """Whether it failed because too much waits at the server."""


class BatchServer:
    """Files and batches at one endpoint."""

    def __init__(
        self, client: openai.AsyncOpenAI, endpoint: Endpoint, redact: Callable[[str], str], note: Callable[[str], None]
    ) -> None:
        self._client, self._endpoint, self._redact, self._note = client, endpoint, redact, note
        self._backoff = Backoff(base_seconds=1.0, cap_seconds=60.0)

    async def upload(self, requests: Path, patience: Callable[[], float]) -> str:
        """Upload a file of requests; returns its id.

        Raises:
            TryFailed: the server refused it, or could not be reached within the patience.
        """

        async def upload() -> Any:
            # The folder may have come from elsewhere: what is sent is a file of it, and nothing that a link leads to.
            with await anyio.to_thread.run_sync(read_plain, requests) as file:
                return await self._client.files.create(file=(requests.name, file), purpose="batch")

        made = await self._tried(upload, patience)
        return _checked_id(made.id)

    async def create(self, input_file: str, path: str, mark: str, patience: Callable[[], float]) -> BatchState:
        """Create a batch, once: where an answer is lost, the batch is looked for before it is created again.

        Raises:
            TryFailed: as `upload`.
        """
        endpoint: Any = f"/v1{path}"
        is_first = True

        async def create() -> Any:
            nonlocal is_first
            if not is_first and (found := await self._find(mark)) is not None:
                return found
            is_first = False
            return await self._client.batches.create(
                input_file_id=input_file, endpoint=endpoint, completion_window="24h", metadata={MARK: mark}
            )

        return _state(await self._tried(create, patience))

    async def find(self, mark: str, patience: Callable[[], float]) -> BatchState | None:
        """The batch with a mark, if its server has it.

        Raises:
            TryFailed: as `upload`.
        """
        found = await self._tried(lambda: self._find(mark), patience)
        return None if found is None else _state(found)

    async def look(self, batch_id: str, patience: Callable[[], float]) -> BatchState:
        """How a batch is.

        Raises:
            TryFailed: as `upload`.
        """
        return _state(await self._tried(lambda: self._client.batches.retrieve(_checked_id(batch_id)), patience))

    async def download(self, file_id: str, to: Path, most_bytes: int, patience: Callable[[], float]) -> None:
        """Download a file of at most so many bytes, unpacked; it is there once it is whole.

        Raises:
            TryFailed: as `upload`, or it is too large.
        """
        partial, most_bytes = to.with_suffix(".partial"), min(most_bytes, MOST_OUTPUT_BYTES)

        async def download() -> None:
            size = 0
            content = self._client.files.with_streaming_response.content(_checked_id(file_id))
            await anyio.Path(partial).unlink(missing_ok=True)
            async with content as response, await anyio.open_file(partial, "xb") as file:
                async for piece in response.iter_bytes(_CONTENT_PIECE):
                    size += len(piece)
                    if size > most_bytes:
                        raise TryFailed(f"the output is longer than {most_bytes:,} bytes", is_retryable=False)
                    await file.write(piece)
            await anyio.Path(partial).replace(to)

        await self._tried(download, patience)

    async def _find(self, mark: str) -> Any:
        seen = 0
        async for batch in self._client.batches.list(limit=100):
            metadata: Any = batch.metadata
            if isinstance(metadata, dict) and metadata.get(MARK) == mark:  # pyright: ignore[reportUnknownMemberType]
                return batch
            seen += 1
            if seen == MOST_LISTED:
                break
        return None

    async def _tried(self, ask: Callable[[], Awaitable[_Result]], patience: Callable[[], float]) -> _Result:
        """Make a request until it is answered, for as long as the patience lasts.

        Raises:
            TryFailed: the server refused it, or the patience is over.
        """
        failures = 0
        began = anyio.current_time()
        while True:
            try:
                with anyio.fail_after(CALL_SECONDS):
                    return await ask()
            except TryFailed:
                raise
            except TimeoutError:
                failed = TryFailed(f"no answer within {CALL_SECONDS:g} s")
            except OSError as error:
                raise TryFailed(f"a batch's file cannot be read or written: {error}", is_retryable=False) from error
            except Exception as error:  # the only calls into the package, which raises its own errors
                failed = failed_try(error, self._endpoint, CALL_SECONDS)
            failures += 1
            wait = self._backoff.wait_seconds(failures, failed.retry_after_seconds)
            if not failed.is_retryable or anyio.current_time() + wait - began > patience():
                raise TryFailed(self._redact(str(failed)), status=failed.status, is_retryable=False) from None
            if failures == 1:
                self._note(f"{self._endpoint.base_url}: {one_line(self._redact(str(failed)), 200)}; trying again")
            await anyio.sleep(wait)


def _checked_id(given: object) -> str:
    if not isinstance(given, str) or _ID.fullmatch(given) is None:
        raise TryFailed(f"the server gave an id that is none: {str(given)[:60]!r}", status=200, is_retryable=False)
    return given


def _state(batch: Any) -> BatchState:
    """A batch of the package, whose fields are whatever the server wrote."""
    counts: dict[str, int] = {}
    for name in ("total", "completed", "failed"):
        count = getattr(batch.request_counts, name, None)
        counts[name] = count if isinstance(count, int) and 0 <= count < 2**31 else 0
    errors: Any = getattr(batch.errors, "data", None)
    listed = cast(list[Any], errors)[:5] if isinstance(errors, list) else []
    files = tuple(None if not each else _checked_id(each) for each in (batch.output_file_id, batch.error_file_id))
    return BatchState(
        id=_checked_id(batch.id),
        status=one_line(str(batch.status), 40),
        counts=counts,
        files=(files[0], files[1]),
        problem="; ".join(one_line(f"{getattr(each, 'message', each)}", 300) for each in listed),
        is_full=any(getattr(each, "code", None) == FULL for each in listed),
    )
