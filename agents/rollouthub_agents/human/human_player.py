"""Plays one episode for a person: turns typed lines into tool calls and messages."""

import json
import os
import shlex
import subprocess
import tempfile
import time
from typing import Any

import anyio
from mcp_types import Tool

from rollouthub import Message, Seat, Stop, ToolRequest
from rollouthub_agents.human.schema_value import Unfit, Value, values_of
from rollouthub_agents.human.screen import Screen
from rollouthub_agents.human.typed_lines import Lines

BLOCK = '"""'
INTERRUPTED_CALL = "The call was interrupted."


class Leave(Exception):
    """The person pressed Ctrl-C, or the input has ended."""


class Back(Exception):
    """The person went back, or the input was refused: ask for the next command."""


class HumanPlayer:
    """Plays one episode by asking a person for commands."""

    def __init__(self, seat: Seat, lines: Lines, screen: Screen) -> None:
        self._seat, self._lines, self._screen = seat, lines, screen
        self._conversation = list(seat.messages)
        self._began = time.monotonic()
        self._calls = 0
        self._waiting: anyio.CancelScope | None = None
        """The scope of the pending question or call, which Ctrl-C cancels."""
        self._title = "user" if seat.has_user else "task"
        self._says = "say something to the user" if seat.has_user else "answer in words, which ends the episode"

    def interrupt(self) -> None:
        """Handle Ctrl-C: cancel the pending question or call."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def play(self) -> Stop:
        """Play until the episode is over, a limit is reached or the person leaves."""
        self._screen.conversation(self._seat.messages, self._title)
        self._screen.tools(self._seat.tools, self._says)
        while not self._seat.is_sealed:
            limit = self._seat.limits.max_turns
            if limit is not None and self._seat.turns >= limit:
                return Stop.TURN_LIMIT
            try:
                stop = await self._act()
            except Back:
                continue
            except Leave:
                stop = await self._leave()
            if stop is not None:
                return stop
        return Stop.SUBMITTED

    async def _act(self) -> Stop | None:
        """Ask for one command and carry it out; returns a stop reason if it ends the episode."""
        word, _, rest = (await self._ask(f"{self._status()}> ")).strip().partition(" ")
        rest = rest.strip()
        match word:
            case "":
                return None
            case "?" | "help" if not rest:
                self._screen.help(self._says)
            case "?" | "help":
                self._screen.tool(self._found(rest))
            case "task":
                self._screen.conversation(self._seat.messages, self._title)
            case "tools":
                self._screen.tools(self._seat.tools, self._says)
            case "more":
                self._screen.more()
            case "done" | "quit" | "exit":
                raise Leave
            case "say":
                return await self._say(rest or await self._text("say"))
            case _:
                tool = self._found(word)
                await self._call(tool, self._given(tool, rest) if rest else await self._form(tool))
        return None

    def _status(self) -> str:
        """The turn number, and the turns and time left."""
        limits, facts = self._seat.limits, [f"turn {self._seat.turns + 1}"]
        if limits.max_turns is not None:
            facts[0] += f" of {limits.max_turns}"
        if limits.max_seconds is not None:
            left = max(0, round(limits.max_seconds - (time.monotonic() - self._began)))
            facts.append(f"{left // 60}:{left % 60:02} left")
        return " · ".join(facts)

    def _found(self, name: str) -> Tool:
        tools = self._seat.tools
        if name.isdecimal() and 1 <= int(name) <= len(tools):
            return tools[int(name) - 1]
        found = [tool for tool in tools if tool.name == name] or [tool for tool in tools if tool.name.startswith(name)]
        if len(found) != 1:
            several = f": is it {' or '.join(tool.name for tool in found)}?" if found else "; `tools` lists them"
            self._screen.refuse(f"there is no tool {name!r}{several}, and ? helps")
            raise Back
        return found[0]

    # --- asking -----------------------------------------------------------------------------------------------------

    async def _ask(self, prompt: str) -> str:
        """Read one line from the person.

        Raises:
            Leave: the input has ended, or Ctrl-C was pressed.
        """
        self._screen.prompt(prompt)
        line = None
        with anyio.CancelScope() as self._waiting:
            line = await self._lines.next()
        self._waiting = None
        if not self._lines.is_terminal or line is None:
            self._screen.note("" if line is None else line)  # nobody else shows what was read
        if line is None:
            raise Leave
        if "\x1b" in line and self._lines.is_terminal:
            self._screen.refuse("the arrow keys do not edit here; :edit opens your editor where a value is asked for")
            return await self._ask(prompt)
        return line

    async def _text(self, name: str) -> str:
        """Read a text of one or several lines, from the terminal, a file or an editor.

        Raises:
            Back: the person typed `:back`.
        """
        line = await self._ask(f"  {name}: ")
        word, _, rest = line.partition(" ")
        if word == ":back":
            raise Back
        if word == ":file":
            return await self._from_file(name, rest.strip())
        if word == ":edit":
            return await self._edited()
        if line.strip() != BLOCK:
            return line
        block: list[str] = []
        while (line := await self._ask("  … ")).strip() != BLOCK:
            block.append(line)
        return "\n".join(block)

    async def _from_file(self, name: str, file: str) -> str:
        try:
            return await (await anyio.Path(file).expanduser()).read_text()
        except (OSError, ValueError, RuntimeError) as error:
            self._screen.refuse(f"{file} cannot be read: {error}")
            return await self._text(name)

    async def _edited(self) -> str:
        """Read a text that the person writes in the editor named by VISUAL or EDITOR."""
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        with tempfile.TemporaryDirectory() as folder:
            file = anyio.Path(folder) / "answer.txt"
            await file.write_text("")
            try:
                await anyio.run_process([*editor, str(file)], stdin=None, stdout=None, stderr=None)
                return (await file.read_text()).removesuffix("\n")
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                self._screen.refuse(f"the editor {shlex.join(editor)} failed: {error}; VISUAL names another")
                raise Back from None

    async def _form(self, tool: Tool) -> dict[str, Any]:
        """Ask for a tool's arguments, one by one."""
        arguments: dict[str, Any] = {}
        for value in values_of(tool.input_schema):
            self._screen.value(value)
            await self._fill(value, arguments)
        return arguments

    async def _fill(self, value: Value, arguments: dict[str, Any]) -> None:
        """Ask for one argument until a valid value is typed, or an optional one is left empty."""
        while True:
            line = await self._text(f"{value.name} ({value.hint})")
            if not line:
                if not value.is_required:
                    return
                self._screen.refuse(f"{value.name} is needed" + ('; "" is an empty text' if value.is_text else ""))
                continue
            try:
                arguments[value.name] = value.parse(line)
                return
            except Unfit as problem:
                self._screen.refuse(str(problem))

    def _given(self, tool: Tool, rest: str) -> dict[str, Any]:
        """Parse arguments typed on the same line as a tool's name.

        Raises:
            Back: they are invalid.
        """
        values = values_of(tool.input_schema)
        needed = [value for value in values if value.is_required] or values
        try:
            if rest.startswith("{"):
                arguments = json.loads(rest)
                if isinstance(arguments, dict):
                    return arguments  # pyright: ignore[reportUnknownVariableType]
            elif len(needed) == 1:
                return {needed[0].name: needed[0].parse(rest)}
            self._screen.refuse(f"{tool.name} takes {len(values)} values: give a JSON object, or its name alone")
        except (ValueError, RecursionError, Unfit) as problem:
            self._screen.refuse(str(problem))
        raise Back

    # --- acting -----------------------------------------------------------------------------------------------------

    async def _call(self, tool: Tool, arguments: dict[str, Any]) -> None:
        self._calls += 1
        request = ToolRequest(id=f"call-{self._calls}", name=tool.name, arguments=json.dumps(arguments))
        response = Message(role="assistant", tool_requests=(request,))
        self._seat.say(self._conversation, response)
        self._conversation.append(response)
        results = [Message(role="tool", content=INTERRUPTED_CALL, tool_call_id=request.id)]
        with anyio.CancelScope() as self._waiting:
            results = await self._seat.call_tools((request,))
        is_interrupted, self._waiting = self._waiting.cancelled_caught, None
        self._conversation += results
        for result in results:
            self._screen.result(result)
        if is_interrupted:
            raise Leave

    async def _say(self, text: str) -> Stop | None:
        response = Message(role="assistant", content=text)
        self._seat.say(self._conversation, response)
        self._conversation.append(response)
        more = None
        with anyio.CancelScope() as self._waiting:
            more = await self._seat.reply((response,))
        is_interrupted, self._waiting = self._waiting.cancelled_caught, None
        if is_interrupted:
            raise Leave
        if more is None:
            return Stop.FINISHED
        self._conversation += more
        self._screen.conversation(more, self._title)
        return None

    async def _leave(self) -> Stop | None:
        """Ask whether to hand in, discard or go on; leaving this question discards."""
        try:
            while True:
                answer = await self._ask("leave? [h]and in as it is, [d]iscard, [g]o on: ")
                match answer.strip().lower()[:1]:
                    case "h":
                        return Stop.FINISHED
                    case "d":
                        return Stop.CANCELLED
                    case "g" | "":
                        return None
                    case _:
                        self._screen.refuse("type h, d or g")
        except Leave:
            self._screen.note("discarded")
            return Stop.CANCELLED
