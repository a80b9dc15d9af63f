"""Asks an external verifier for a score: a command in its own process, or an HTTP service."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import anyio
from anyio.abc import ByteReceiveStream, Process
from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from rollouthub.errors import ConfigError, VerifierError
from rollouthub.hosting.control_wire import BatchAnswer
from rollouthub.http.exchange import open_pool
from rollouthub.http.no_answer import AnswerTooSlow, NoAnswer
from rollouthub.plugins.manifest import VerifierSection
from rollouthub.score import Score, Submission
from rollouthub.task import PRIVILEGED, Public, Secret, Task
from rollouthub_servers.mcp_server.processes import MARK, has_ended, stop_tree
from rollouthub_servers.mcp_server.program_place import ProgramPlace
from rollouthub_servers.mcp_server.scratch import Skipped

MAX_ANSWER_BYTES = 4 * 1024 * 1024
_LOG_BYTES = 4_000
_FAREWELL_SECONDS = 2.0


def question(
    task: Task[Public, Secret], submission: Submission, seed: int, workdir: Path | None, skipped: Sequence[Skipped]
) -> bytes:
    """The question to a verifier, as one JSON object."""
    secret = task.secret.model_dump(mode="json", context=PRIVILEGED)
    told: dict[str, JsonValue] = {
        "task": {
            **task.public.model_dump(mode="json"),
            "answer": secret["answer"],
            "secret": secret.get("secret", {}),
        },
        "submission": {**submission.model_dump(mode="json"), "final": submission.final},
        "seed": seed,
        "workdir": None if workdir is None else str(workdir),
        "skipped": [{"path": entry.path, "reason": entry.reason} for entry in skipped],
    }
    return to_json(told)


async def ask_command(section: VerifierSection, place: ProgramPlace, home: Path, mark: str, asked: bytes) -> Score:
    """Start the verifier's command, write the question to its stdin, and read the score from its stdout.

    Raises:
        VerifierError: the command cannot be started, fails, is too slow, or does not print a score.
    """
    assert section.command is not None
    words = {"{folder}": str(place.folder), "{python}": place.python}
    argv = [_fill(word, words) for word in section.command]
    env = {
        **place.variables,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
        MARK: mark,
        **section.env,
    }
    try:
        process = await anyio.open_process(
            argv, env=env, cwd=place.folder, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    except OSError as error:
        raise VerifierError(f"the verifier {argv[0]!r} cannot be started: {error.strerror or error}") from error
    answer, log = _Collected(MAX_ANSWER_BYTES), _Collected(_LOG_BYTES, keeps_end=True)
    try:
        with anyio.move_on_after(section.seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(_tell, process, asked)
                group.start_soon(answer.read, process.stdout)
                group.start_soon(log.read, process.stderr)
                while not (await has_ended(process, 0.2) or answer.is_full):
                    pass
                # What it started may hold its pipes open; nobody waits for that.
                with anyio.move_on_after(_FAREWELL_SECONDS):
                    await answer.ended.wait()
                    await log.ended.wait()
                group.cancel_scope.cancel()
        code = process.returncode
    finally:
        with anyio.CancelScope(shield=True):
            await stop_tree(process, mark, 0.0)
            await process.aclose()
    said = log.data.decode("utf-8", "replace").strip()
    tail = f"; its stderr ends: {said}" if said else ""
    if answer.is_full:
        raise VerifierError(f"the verifier printed more than {MAX_ANSWER_BYTES:,} bytes")
    if code is None:
        raise VerifierError(f"the verifier gave no score within {section.seconds:g} s{tail}")
    if code:
        raise VerifierError(f"the verifier ended with exit code {code}{tail}")
    return score_of(bytes(answer.data), tail)


async def ask_service(section: VerifierSection, token: str | None, asked: bytes) -> Score:
    """Post the question to the verifier's service, as a batch of one entry in the contract's form.

    Raises:
        VerifierError: the service cannot be reached, fails, is too slow, or does not answer with a score.
    """
    assert section.url is not None
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    body, owner = b'{"entries":[' + asked + b"]}", f"the verifier at {section.url}"
    try:
        async with open_pool() as pool:
            answer = await pool.exchange(
                "POST", section.url, body, headers, seconds=section.seconds, most_bytes=MAX_ANSWER_BYTES
            )
    except AnswerTooSlow as error:
        raise VerifierError(f"{owner} gave no score within {section.seconds:g} s") from error
    except NoAnswer as error:
        raise VerifierError(f"{owner} gave no score: {error}") from error
    if answer.status != 200:
        raise VerifierError(f"{owner} answered {answer.words}")
    try:
        verdict = BatchAnswer.model_validate_json(answer.body, strict=True).verdicts[0]
    except (ValueError, IndexError) as error:
        raise VerifierError(f"what {owner} answered is no verdict: {error!s:.500}") from error
    if verdict.score is None:
        problem = "neither score nor error" if verdict.error is None else verdict.error.message
        raise VerifierError(f"{owner} failed: {problem}")
    return verdict.score


def score_of(answer: bytes, tail: str) -> Score:
    """Parse a verifier's output, which must be one JSON object.

    Raises:
        VerifierError: it is not a score.
    """
    try:
        return Score.model_validate_json(answer, strict=True)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            shown = answer[:300].decode("utf-8", "replace")
            raise VerifierError(
                f"the verifier must print one JSON score and nothing else, it printed {shown!r}{tail}"
            ) from error
        raise VerifierError(f"what the verifier gave is no score: {error!s:.500}{tail}") from error


def read_token(variable: str | None, key: str) -> str | None:
    """Read a bearer token from an environment variable.

    Raises:
        ConfigError: the variable is not set.
    """
    if variable is None:
        return None
    if token := os.environ.get(variable):
        return token
    raise ConfigError(f"{key} = {variable!r}: the environment variable is not set; set it to the bearer token")


def _fill(word: str, words: dict[str, str]) -> str:
    for placeholder, meant in words.items():
        word = word.replace(placeholder, meant)
    return word


async def _tell(process: Process, asked: bytes) -> None:
    assert process.stdin is not None
    # A verifier that scores without reading everything is none the worse for it.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await process.stdin.send(asked)
        await process.stdin.aclose()


class _Collected:
    """Collects the first or the last bytes of a program's output."""

    def __init__(self, limit: int, *, keeps_end: bool = False) -> None:
        self.data = bytearray()
        self.is_full = False
        self.ended = anyio.Event()
        self._limit, self._keeps_end = limit, keeps_end

    async def read(self, stream: ByteReceiveStream | None) -> None:
        """Read until the end, or until the limit is exceeded."""
        assert stream is not None
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for chunk in stream:
                self.data += chunk
                if self._keeps_end:
                    del self.data[: -self._limit]
                elif len(self.data) > self._limit:
                    self.is_full = True
                    break
        self.ended.set()
