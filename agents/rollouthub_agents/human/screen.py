"""Shows an episode to a person, on stderr since stdout is for results. Text of others cannot control the terminal."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from mcp_types import Tool
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rollouthub.messages import Media, Message
from rollouthub.text import plain, plain_name
from rollouthub_agents.human.schema_value import Value, values_of

PIPE_WIDTH = 100
MOST_SHOWN = 12_000
"""Most characters of a result that are shown; `more` shows all."""
_MOST = 10**9
HELP = """\
NUMBER or NAME   call a tool; you are asked for its arguments one by one
NAME {{"a": 1}}    call it with arguments as JSON
NAME TEXT        call it with its one needed argument
say TEXT         {say}
? TOOL           what a tool is for, and its schema
task, tools      show the task, the tools again
more             show the last result whole
done             leave: hand in as it is, or discard

Where a value is asked for:
(empty line)     leave out what is optional; \"\" is an empty text
\"\"\"              begins and ends several lines
:edit            open your editor
:file PATH       take what a file holds
:back            go back

Ctrl-C and Ctrl-D ask whether to leave."""


class Screen:
    """The person's terminal, or the pipe or file that stderr is."""

    def __init__(self, *, is_markdown: bool) -> None:
        self._is_markdown = is_markdown
        self._console = Console(stderr=True, width=None if sys.stderr.isatty() else PIPE_WIDTH, highlight=False)
        self._last = ""

    def conversation(self, messages: Sequence[Message], user: str) -> None:
        """Show messages in full; those of the role `user` get the title `user`."""
        for message in messages:
            titles = {"system": ("rules", "dim"), "user": (user, "cyan")}
            title, style = titles.get(message.role, (message.role, "none"))
            self._panel(_words(message).strip("\n"), title, style)

    def _panel(self, text: str, title: str, style: str) -> None:
        shown: Any = Text(plain(text, _MOST))
        if self._is_markdown:
            from rich.markdown import Markdown  # only for those who ask: it is not the text as a model reads it

            shown = Markdown(plain(text, _MOST), hyperlinks=False)
        self._console.print(Panel(shown, title=title, title_align="left", border_style=style))

    def tools(self, tools: Sequence[Tool], says: str) -> None:
        """List the tools and the other commands."""
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(justify="right", style="bold", no_wrap=True)
        table.add_column()
        for number, tool in enumerate(tools, 1):
            names = ", ".join(
                plain_name(value.name) if value.is_required else f"[{plain_name(value.name)}]"
                for value in values_of(tool.input_schema)
            )
            about = Text.assemble((plain_name(tool.name), "bold"), f"({names})")
            if tool.description:
                about.append(f"  {plain_name(tool.description.strip().partition(chr(10))[0])}", "dim")
            table.add_row(str(number), about)
        table.add_row("say", Text(says, "dim"))
        table.add_row("?", Text("help", "dim"))
        self._console.print(table)

    def help(self, says: str) -> None:
        """Show the commands."""
        self._console.print(Text(HELP.format(say=says)), soft_wrap=True)

    def tool(self, tool: Tool) -> None:
        """Show a tool's description and schema."""
        self._console.print(Text(plain_name(tool.name), "bold"))
        if tool.description:
            self._console.print(Text(plain(tool.description, MOST_SHOWN)))
        schema = json.dumps(tool.input_schema, indent=2, ensure_ascii=False)
        self._console.print(Text(plain(schema, MOST_SHOWN), "dim"))

    def value(self, value: Value) -> None:
        """Show an argument's description and choices before asking for it."""
        if value.description:
            self._note(plain(value.description, MOST_SHOWN), "dim")
        for number, choice in enumerate(value.choices, 1):
            shown = choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False)
            self._note(f"{number:>3}  {plain_name(shown)}", "")

    def result(self, message: Message) -> None:
        """Show a tool's result, cut to `MOST_SHOWN` characters."""
        self._last = _pretty(_words(message))
        self._note(plain(self._last, MOST_SHOWN) or "(nothing)", "yellow")
        if len(self._last) > MOST_SHOWN:
            self.note("`more` shows it whole")

    def more(self) -> None:
        """Show the last result in full."""
        self._note(plain(self._last, _MOST) or "there is none yet", "yellow")

    def note(self, text: str, style: str = "dim") -> None:
        """Show a remark of the hub."""
        self._console.print(Text(text, style=style))

    def refuse(self, reason: str) -> None:
        """Say why the typed input is invalid."""
        self._console.print(Text(plain(reason, MOST_SHOWN), "red"))

    def prompt(self, text: str) -> None:
        """Show a prompt; the answer is typed on the same line."""
        self._console.print(Text(text, "bold"), end="")
        self._console.file.flush()

    def _note(self, text: str, style: str) -> None:
        self._console.print(Padding(Text(text, style=style), (0, 0, 0, 2)))


def _words(message: Message) -> str:
    """A message's text; media are named by type and digest."""
    if isinstance(message.content, str):
        return message.content
    parts = [
        f"[{part.mime_type}, kept with the record: {part.digest}]" if isinstance(part, Media) else part.text
        for part in message.content
    ]
    return "\n".join(parts)


def _pretty(text: str) -> str:
    """Indent the text if it is JSON; other text stays as it is."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
