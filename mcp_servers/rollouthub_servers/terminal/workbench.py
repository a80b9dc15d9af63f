"""`Workbench`: tools for an agent in a container (a shell and files), the base of `terminal` and `swe`."""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, TypeVar

import anyio
from pydantic import Field

from rollouthub import Environment, ToolError, tool
from rollouthub.sandbox import MIB, CommandNotStarted, Finished, SandboxFileError
from rollouthub_servers.terminal import tool_messages
from rollouthub_servers.terminal.config import ShellConfig

LONGEST_COMMAND = 100_000
"""Most bytes of a `bash` command; Linux limits an argument to 128 KiB."""
MOST_TEXT = 16 * MIB
"""Most bytes of a file that `read_file` and `edit_file` read."""

_LOOK_SECONDS = 0.02

ShellConfigT = TypeVar("ShellConfigT", bound=ShellConfig, covariant=True)


class Workbench(Environment[ShellConfigT]):
    """A shell and files in the episode's sandbox. Subclasses define the sandbox and the verification."""

    submits: ClassVar[bool] = False
    acts_as: str | None = None
    """The user that runs commands; None for the sandbox's own user."""
    ends_at: float | None = None
    """When the agent's time ends, in seconds of anyio's clock; None if it does not."""
    _is_paused = False
    _acting = 0
    """Number of calls that use the sandbox now."""

    @tool
    async def bash(self, command: str, timeout_seconds: Annotated[float, Field(gt=0)] | None = None) -> str:
        """Run a command in bash and read what it writes, standard error included.

        Each call is a shell of its own in the working directory: `cd` and variables do not last, files do. What a
        command leaves running in the background goes on.

        Args:
            command: The command, or a whole script.
            timeout_seconds: Stop it, with everything it started, after so many seconds.
        """
        if len(command.encode(errors="replace")) > LONGEST_COMMAND:
            raise ToolError(f"the command is over {LONGEST_COMMAND:,} bytes; write it to a file with write_file")
        if "\0" in command:
            raise ToolError("the command has a null byte in it")
        seconds = min(timeout_seconds or self.config.command_seconds, self.longest_command)
        if (left := self._seconds_left()) is not None:
            seconds = min(seconds, left)
        return tool_messages.ended(await self._run(command, seconds), seconds)

    @tool
    async def read_file(
        self, path: str, first_line: Annotated[int, Field(ge=1)] = 1, lines: Annotated[int, Field(ge=1)] = 2000
    ) -> str:
        """Read a text file.

        Args:
            path: Where it is; a relative path starts at the working directory.
            first_line: The first line to show, counted from 1.
            lines: How many lines to show.
        """
        self._seconds_left()
        return tool_messages.lines(await self._text(path), first_line, lines, self.config.output_bytes)

    @tool
    async def write_file(self, path: str, content: str) -> str:
        """Write a whole text file, in place of what is there; missing folders are made.

        Args:
            path: Where it goes; a relative path starts at the working directory.
            content: The whole text.
        """
        self._seconds_left()
        place = await self._put(path, content)
        return f"Wrote {len(content.encode()):,} bytes to {place}."

    @tool
    async def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a piece of a text file. The piece must be there exactly once, spaces and all.

        Args:
            path: Where it is; a relative path starts at the working directory.
            old: The piece to replace, as it stands in the file.
            new: What stands there afterwards.
        """
        self._seconds_left()
        text = await self._text(path)
        if not old:
            raise ToolError("`old` is empty; use write_file to write a file anew")
        count = text.count(old)
        if count != 1:
            found = "is not in the file" if count == 0 else f"is in the file {count} times; make it longer"
            raise ToolError(f"`old` {found}. Nothing was changed.")
        place = await self._put(path, text.replace(old, new))
        return f"Edited {place}."

    @tool
    async def list_files(self, path: str = ".", recursive: bool = False) -> str:
        """List the files of a folder.

        Args:
            path: The folder; a relative path starts at the working directory.
            recursive: Whether to list what is in its folders, too.
        """
        self._seconds_left()
        place = self._place(path)
        try:
            with self._act():
                entries = await self.sandbox.list_files(place, recursive=recursive)
        except SandboxFileError as error:
            raise ToolError(f"{place} cannot be listed: {tool_messages.why(error)}") from None
        return tool_messages.listing(entries, self.config.output_bytes)

    @property
    def longest_command(self) -> float:
        """Most seconds of a command."""
        return self.config.most_command_seconds

    @property
    def agent_environment(self) -> dict[str, str]:
        """Additional variables for the agent's commands."""
        return {}

    @property
    def _sandbox_may_more(self) -> bool:
        """Whether the sandbox's file access has more rights than the agent."""
        ref = self.sandbox.ref
        is_root = ref.user.partition(":")[0] in ("0", "root", "")
        return self.acts_as is not None or (ref.profile == "root-compat" and not is_root)

    async def _run(self, command: str, seconds: float) -> Finished:
        options: dict[str, Any] = {
            "environment": self.agent_environment,
            "user": self.acts_as,
            "timeout_seconds": seconds,
            "output_bytes": self.config.output_bytes,
        }
        script = f"exec 2>&1; {command}"
        with self._act():
            try:
                return await self.sandbox.exec(["bash", "-c", script], **options)
            except CommandNotStarted as error:
                if error.reason != "ENOENT":
                    raise _not_started(error) from None
        with self._act():
            return await self._exec(["/bin/sh", "-c", script], **options)

    @asynccontextmanager
    async def paused(self, *, kills: bool) -> AsyncGenerator[None]:
        """Refuse the agent's calls; those in flight have ended when the context is entered, killed if `kills`."""
        self._is_paused = True
        try:
            while self._acting:
                if kills:
                    await self.sandbox.stop()
                await anyio.sleep(_LOOK_SECONDS)
            yield
        finally:
            self._is_paused = False

    @contextmanager
    def _act(self) -> Generator[None]:
        """A use of the sandbox for the agent.

        Raises:
            ToolError: the agent's calls are paused.
        """
        if self._is_paused:
            raise ToolError("what you did so far is being graded; wait for the next step")
        self._acting += 1
        try:
            yield
        finally:
            self._acting -= 1

    async def _exec(self, command: Sequence[str], **options: Any) -> Finished:
        try:
            return await self.sandbox.exec(command, **options)
        except CommandNotStarted as error:
            raise _not_started(error) from None

    def _seconds_left(self) -> float | None:
        if self.ends_at is None:
            return None
        left = self.ends_at - anyio.current_time()
        if left <= 0:
            raise ToolError("the time for this task is over")
        return left

    def _place(self, path: str) -> str:
        if not path or "\0" in path:
            raise ToolError("the path is empty" if not path else "the path has a null byte in it")
        return str(PurePosixPath(self.sandbox.workdir) / path)

    async def _text(self, path: str) -> str:
        place = self._place(path)
        with self._act():
            if self._sandbox_may_more:
                data = await self._read_as_agent(place)
            else:
                try:
                    data = await self.sandbox.read_file(place, max_bytes=MOST_TEXT)
                except SandboxFileError as error:
                    raise ToolError(f"{place} cannot be read: {tool_messages.why(error)}") from None
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{place} is no UTF-8 text ({len(data):,} bytes); look at it with bash") from None

    async def _read_as_agent(self, place: str) -> bytes:
        """Read a file with the agent's rights."""
        finished = await self._exec(["cat", "--", place], user=self.acts_as, output_bytes=MOST_TEXT)
        if finished.exit_status != 0:
            said = finished.stderr.text.strip().rpartition(": ")[2].lower()
            raise ToolError(f"{place} cannot be read: {said or 'it could not be opened'}")
        if finished.stdout.dropped_bytes:
            raise ToolError(f"{place} cannot be read: it is too large; look at parts of it with bash")
        return finished.stdout.head + finished.stdout.tail

    async def _put(self, path: str, text: str) -> str:
        place = self._place(path)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise ToolError("the text holds half of a surrogate pair, which no file takes") from None
        with self._act():
            if self._sandbox_may_more:
                await self._write_as_agent(place, data)
                return place
            try:
                await self.sandbox.write_file(place, data, mode=await self._mode(place))
            except SandboxFileError as error:
                raise ToolError(f"{place} cannot be written: {tool_messages.why(error)}") from None
        return place

    async def _write_as_agent(self, place: str, data: bytes) -> None:
        """Write a file with the agent's rights."""
        command = ["/bin/sh", "-c", 'mkdir -p -- "$1" && cat > "$2"', "write", str(PurePosixPath(place).parent), place]
        finished = await self._exec(command, stdin=data, user=self.acts_as, keeps_background=False)
        if finished.exit_status != 0:
            said = finished.stderr.text.strip().rpartition(": ")[2].lower()
            raise ToolError(f"{place} cannot be written: {said or 'it could not be opened'}")

    async def _mode(self, place: str) -> int:
        """The permissions for a file: those it has, so that a script stays executable; for a new file 0o644."""
        try:
            entries = await self.sandbox.list_files(place, max_entries=1)
        except SandboxFileError:
            return 0o644
        return entries[0].mode if len(entries) == 1 and entries[0].kind == "file" else 0o644


def _not_started(error: CommandNotStarted) -> ToolError:
    """A tool error, since the agent broke its own shell, user or folder; they were there before it acted."""
    return ToolError(f"{error}; are its shell, its folder and the libraries it needs still there?")
