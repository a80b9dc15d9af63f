"""Attack: strings that have an effect if the server's process executes them (L12)."""

import base64
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from rollouthub.errors import EpisodeError
from rollouthub.plugins.plain_files import read_plain
from rollouthub.store.folders import remove_folder
from rollouthub_registry.check.argument_samples import well_formed
from rollouthub_registry.check.scripted_episode import SUBMIT
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.attacks.shell_tools import find_shell

_LONGEST_ID = 20
"""Most bytes of a process id."""


class _Touch:
    """An object that creates a file when it is unpickled."""

    def __init__(self, file: str) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self._file, "w")


def _payloads(file: str) -> Iterator[str]:
    """Strings in Python, shell, templates, YAML and pickle that create a file when executed, each with its kind."""
    python = f"__import__('pathlib').Path({file!r}).write_text(str(__import__('os').getpid()))"
    yield python
    yield f"exec({python!r})"
    yield f"[c for c in ().__class__.__base__.__subclasses__()] and {python}"
    yield f"1 + int({python})"
    yield f"0) or {python} or (0"
    yield f"'; {python}; '"
    yield f"{{{{ {python} }}}}"
    yield f"${{{python}}}"
    yield f"f'{{{python}}}'"
    yield f"\\boxed{{{python}}}"
    yield f"```python\n{python}\n```"
    yield f"$(echo $PPID > {file})"
    yield f"`echo $PPID > {file}`"
    yield f"; echo $PPID > {file} ;"
    yield f"| echo $PPID > {file}"
    yield f"!!python/object/apply:os.system ['echo $PPID > {file}']"
    yield f"@{file}"
    yield base64.b64encode(pickle.dumps(_Touch(file))).decode()
    yield "{self.task.secret.answer} {0.__class__.__init__.__globals__} %(secret)s"


async def run_strings(context: AttackContext) -> str:
    """The server must execute no tool argument and no answer: the files that they would create must not exist."""
    if not context.is_local:
        raise NotTried("the server runs on another machine, whose files cannot be looked at")
    folder = Path(tempfile.mkdtemp(prefix="rollouthub-check-", dir=context.target.writable))
    try:
        count = await _try(context, folder / "ran")
    finally:
        remove_folder(folder)
    return f"{count} strings are taken as text"


async def _try(context: AttackContext, file: Path) -> int:
    count = 0
    payloads = list(_payloads(str(file)))
    async with context.episode() as opened:
        shell = await find_shell(context, opened)
        for tool in opened.place.tools:
            fields = cast(dict[str, dict[str, Any]], tool.input_schema.get("properties", {}))
            texts = [name for name, field in fields.items() if "string" in str(field) and tool.name != SUBMIT]
            is_shell = shell is not None and tool.name == shell.tool.name
            for payload in payloads if texts else ():
                count += 1
                arguments = next(well_formed(tool, payload))
                exchange = await context.call(opened, tool.name, arguments)
                if _has_run(context, file, is_shell):
                    context.note(f"an argument of {tool.name} is run by the server: {payload[:80]!r}", exchange)
        submits = opened.submits
    for payload in payloads if submits else ():
        count += 1
        try:
            async with context.episode() as opened:
                exchange = await context.call(opened, SUBMIT, {"answer": payload})
                await opened.end()
        except EpisodeError as error:
            context.note(f"an answer ends the server: {payload[:80]!r}: {error}")
            continue
        if _has_run(context, file, is_meant=True):
            context.note(f"an answer is run by the server: {payload[:80]!r}", exchange)
    return count


def _has_run(context: AttackContext, file: Path, is_meant: bool) -> bool:
    """Whether a payload was executed; with tools that run programs, only execution by the server itself counts."""
    try:
        with read_plain(file) as said:  # a server that plants a link there has nothing else read
            who = said.read(_LONGEST_ID).decode(errors="replace").strip()
        file.unlink()
    except OSError:
        return False
    return not is_meant or (context.target.pid is not None and who == str(context.target.pid))


ATTACKS = (Attack("run-strings", "L12", "what an agent says is never run in the server's process", run_strings),)
