"""`McpServer`: the base of the environment classes made from manifests; an instance is one episode on one server.

How it is scored is in `server_verifiers`.
"""

import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import anyio
from anyio.abc import TaskGroup
from mcp_types import CallToolResult, DiscoverResult, Tool

from rollouthub.environment import Environment, EnvironmentConfig
from rollouthub.errors import ConfigError, TaskError
from rollouthub.event_loop import background_tasks
from rollouthub.limits import Limits
from rollouthub.messages import Message
from rollouthub.plugins.manifest import Manifest, ServerSection, VerifierSection
from rollouthub.score import CollectedArtifacts
from rollouthub.task import BadRow, Public, Secret, Task
from rollouthub_servers.mcp_server.foreign_verifier import read_token
from rollouthub_servers.mcp_server.launch import CONTAINER_WORKDIR, check_engine, launch_of
from rollouthub_servers.mcp_server.program_place import ProgramPlace
from rollouthub_servers.mcp_server.results import bounded
from rollouthub_servers.mcp_server.rows import RowSecret, read_tasks
from rollouthub_servers.mcp_server.scratch import Scratch, collect, make_scratch, remove, seed
from rollouthub_servers.mcp_server.sources import make_ready, rows_of
from rollouthub_servers.mcp_server.tool_list import PinnedTools, pin

if TYPE_CHECKING:
    from rollouthub_servers.mcp_server.connection import Connection


class McpServer(Environment[EnvironmentConfig]):
    """An environment of a foreign MCP server with its tasks, without a verifier."""

    checks_arguments = False
    manifest: ClassVar[Manifest]
    server: ClassVar[ServerSection]
    verifier: ClassVar[VerifierSection]
    file: ClassVar[Path]
    place: ClassVar[ProgramPlace]
    pinned: ClassVar[PinnedTools | None] = None
    """The server's tools when `prepare` ran."""
    era: ClassVar[DiscoverResult | str] = "auto"
    """The server's protocol era; `auto` until it is known."""
    slots: ClassVar[anyio.Semaphore | None] = None

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self._group: TaskGroup | None = None
        self.scratch: Scratch | None = None
        self._connection: Connection | None = None
        self._has_slot = False
        self._is_trusted = False
        """Whether the tool list matched the pinned one, and no call has failed since."""

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """The splits in the manifest, in its order."""
        return tuple(cls.manifest.tasks)

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """One task per row, in the order of the file."""
        return read_tasks(rows_of(cls.manifest.tasks[split], cls.place.folder, split), split, cls.place.folder)

    @classmethod
    def limits(cls, config: Any) -> Limits:
        """The limits in the manifest."""
        return cls.manifest.limits

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """The manifest, the seed files, and every file beside the manifest that a command names."""
        server, verifier, folder = cls.server, cls.verifier, cls.place.folder
        words = [*(server.command or ()), *server.args, *(verifier.command or ())]
        named = {folder / word.replace("{folder}", str(folder)) for word in words if "\0" not in word}
        if server.files is not None:
            named |= set((folder / server.files).rglob("*"))
        inside = (path for path in named if path.is_relative_to(folder) and ".." not in path.parts)
        found: list[Path] = []
        for path in sorted(inside):
            with suppress(OSError):
                if path.is_file():
                    found.append(path)
        return [cls.file, *found]

    @classmethod
    async def prepare(cls, config: Any) -> None:
        """Start the server once, for the first task, and pin its tools.

        Raises:
            ConfigError: the server does not start, or its tools cannot be offered.
        """
        server = cls.server
        if server.image is not None:
            await _require_engine(check_engine(server.image), server.image)
        for key, variable in (("server", server.token_variable), ("verifier", cls.verifier.token_variable)):
            read_token(variable, f"{key}.token_variable")
        if server.files is not None and not (cls.place.folder / server.files).is_dir():
            raise ConfigError(f"{cls.file}: server.files = {server.files!r}: there is no such folder beside it")
        for split, source in cls.manifest.tasks.items():
            await anyio.to_thread.run_sync(make_ready, source, split, cls.place.folder)
        cls.slots = None if server.concurrency is None else anyio.Semaphore(server.concurrency)
        cls.pinned, cls.era = None, "auto"
        probe = cls(cls._first_task(config), config, 0)
        try:
            async with probe.lifespan():
                tools = await probe._start()
                cls.pinned = pin(tools, server, probe._volatile)
                assert probe._connection is not None
                cls.era = probe._connection.era
        except TaskError as error:
            raise ConfigError(f"{cls.file}: {error}") from error

    @classmethod
    def _first_task(cls, config: Any) -> Task[Public, Secret]:
        split = next(iter(cls.manifest.tasks))
        for task in cls.tasks(config, split, 0):
            if isinstance(task, Task):
                return task
        raise ConfigError(f"{cls.file}: no row of split {split!r} makes a task")

    @classmethod
    def more_tools(cls, config: Any) -> Sequence[Tool]:
        """The pinned tools."""
        if cls.pinned is None:
            raise ConfigError(f"{cls.file}: its server was not asked for its tools yet; await `prepare` first")
        return [tool.definition for tool in cls.pinned.offered.values()]

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Keep the server's connection open; at the end, stop the server and remove its folders."""
        async with background_tasks() as self._group:
            try:
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await self._leave()

    async def _leave(self) -> None:
        if self._connection is not None:
            await self._connection.finish()
        if self.scratch is not None:
            await anyio.to_thread.run_sync(remove, self.scratch.root)
            self.scratch = None
        if self._has_slot and self.slots is not None:
            self._has_slot = False
            self.slots.release()

    async def setup(self) -> None:
        """Start this episode's server, and check that its tools are the pinned ones."""
        self._compare(await self._start())
        self._is_trusted = True

    async def _start(self) -> list[Tool]:
        server = self.server
        if self.slots is not None:
            await self.slots.acquire()
            self._has_slot = True
        connection = self._connection = await self._connect()
        assert self._group is not None, "an episode is opened within its lifespan"
        with anyio.move_on_after(server.start_seconds):
            await self._group.start(connection.hold)
            return await connection.list_tools()
        raise TaskError(
            connection.wire.describe(f"the server did not start and list its tools within {server.start_seconds:g} s")
        )

    async def _connect(self) -> "Connection":
        # The SDK takes half a second to load: only who plays pays for it.
        from rollouthub_servers.mcp_server.connection import Connection
        from rollouthub_servers.mcp_server.http import streamable_http
        from rollouthub_servers.mcp_server.line_state import Wire
        from rollouthub_servers.mcp_server.stdio import stdio

        server, wire = self.server, Wire()
        if (url := server.url) is not None:
            token = read_token(server.token_variable, "server.token_variable")
            return Connection(lambda: streamable_http(url, token), wire, self.era, server.call_seconds)
        scratch = self.scratch = await anyio.to_thread.run_sync(make_scratch, secrets.token_hex(12))
        secret = self.task.secret
        own = secret.folder if isinstance(secret, RowSecret) else None
        chosen = own or server.files
        seeds = None if chosen is None else self.place.folder / chosen
        files = secret.files if isinstance(secret, RowSecret) else {}
        await anyio.to_thread.run_sync(seed, scratch.workdir, seeds, files)
        launch = launch_of(self.server, self.place, scratch, self.task.public, self.seed)
        return Connection(lambda: stdio(launch, wire), wire, self.era, server.call_seconds)

    @property
    def _volatile(self) -> str:
        """The scratch folder's path, which differs between episodes and may appear in tool descriptions; else empty."""
        return str(self.scratch.workdir) if self.scratch is not None and self.server.image is None else ""

    def _compare(self, tools: Sequence[Tool]) -> None:
        assert self.pinned is not None
        if difference := self.pinned.difference(tools, self._volatile):
            raise TaskError(f"the server's tools are not those of the start of the run: {difference}", retryable=False)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Check the arguments, and forward the call to the server."""
        assert self.pinned is not None
        assert self._connection is not None
        tool = self.pinned.offered[name]
        tool.check(arguments)
        try:
            await self._check_announced()
            result = await self._connection.call(tool.server_name, arguments)
        except TaskError:
            self._is_trusted = False
            raise
        return bounded(result, self.server.result_bytes)

    async def _check_announced(self) -> None:
        """If the server announced a changed tool list, list its tools again and compare them."""
        assert self._connection is not None
        wire = self._connection.wire
        if wire.has_changed_tools and (tools := await self._connection.last_tools()) is not None:
            wire.has_changed_tools = False
            self._compare(tools)

    async def seal(self) -> None:
        """Check that the tools are still the pinned ones, and end the server, so that nothing changes any more."""
        connection = self._connection
        if connection is None:
            return
        try:
            if self._is_trusted and (tools := await connection.last_tools()) is not None:
                self._compare(tools)
        finally:
            await connection.finish()

    async def collect_artifacts(self, max_bytes: int) -> CollectedArtifacts:
        """The files of the scratch folder that the manifest names."""
        if self.scratch is None or not self.server.artifacts:
            return CollectedArtifacts()
        return await anyio.to_thread.run_sync(collect, self.scratch.workdir, self.server.artifacts, max_bytes)

    def messages(self, seat: str) -> Sequence[Message]:
        """The prompt, with `{workdir}` replaced by the scratch folder's path."""
        return [self._placed(message) for message in super().messages(seat)]

    def reference(self) -> Sequence[Message]:
        """The row's reference, with `{workdir}` replaced by the scratch folder's path."""
        return [self._placed(message) for message in super().reference()]

    @classmethod
    def has_reference(cls, task: Task[Public, Secret]) -> bool:
        """Whether the row has a reference."""
        return bool(task.secret.reference)

    def _placed(self, message: Message) -> Message:
        if self.scratch is None:
            return message
        workdir = CONTAINER_WORKDIR if self.server.image is not None else str(self.scratch.workdir)
        content = message.content.replace("{workdir}", workdir) if isinstance(message.content, str) else message.content
        requests = tuple(
            request.model_copy(update={"arguments": request.arguments.replace("{workdir}", workdir)})
            for request in message.tool_requests
        )
        return message.model_copy(update={"content": content, "tool_requests": requests})


async def _require_engine(engine: str, image: str) -> None:
    """Raise ConfigError before the first episode if no container engine answers, or the image does not exist."""
    for command, what in (
        ([engine, "version", "--format", "{{.Server.Version}}"], "no container engine answers: start one (`dockerd`)"),
        ([engine, "image", "inspect", "--format", "{{.Id}}", image], f"there is no such image: `docker pull {image}`"),
    ):
        asked = None
        with anyio.move_on_after(20):
            asked = await anyio.run_process(command, check=False)
        if asked is None or asked.returncode:
            said = "" if asked is None else asked.stderr.decode("utf-8", "replace").strip()[:300]
            raise ConfigError(f"server.image = {image!r}: {what}, or start the server with `command` ({said})")
