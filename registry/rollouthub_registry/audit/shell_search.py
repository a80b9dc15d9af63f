"""Searches for hidden texts with shell commands: on the disk, and in what commands print.

The texts are sent in base64, so that neither the command line of a search nor a file that it is kept in holds them.
"""

import base64
import re
from collections.abc import Awaitable, Callable, Sequence

from rollouthub_registry.audit.hidden_texts import HiddenText

Run = Callable[[str], Awaitable[str]]
"""Runs a shell script, and returns what it printed."""
_MOST_SCRIPT = 90_000
"""Most characters of the lines that one script carries: the arguments of a command have bounds."""
_PRUNED = (
    "/proc",
    "/sys",
    "/dev",
    "/usr/lib",
    "/usr/share",
    "/usr/include",
    "/usr/bin",
    "/usr/sbin",
    "/lib",
    "/var/lib",
)
_FOUND = re.compile(r"^found:(\d+):(.*)$", re.MULTILINE)
_HAS = """\
a=; echo x | grep -qa x 2>/dev/null && a=-a
has() { while IFS= read -r line; do [ -z "$line" ] || grep -q $a -wF -- "$line" "$1" || return 1; done; }
"""
"""Whether a file has all of the lines that are read."""


def _coded(lines: Sequence[str]) -> str:
    return base64.b64encode(("\n".join(lines) + "\n").encode()).decode()


async def on_disk(run: Run, texts: Sequence[HiddenText]) -> list[tuple[str, str]]:
    """Names of the texts that lie in one file each, and the files."""
    pruned = " -o ".join(f"-path {path}" for path in _PRUNED)
    files = (
        f'find / /tmp "$PWD" "${{HOME:-/root}}" -xdev \\( {pruned} -o -name .git \\) -prune '
        "-o -type f -size -4096k -print0 2>/dev/null"
    )
    found: list[tuple[str, str]] = []
    for batch in _batches(texts):
        searches = "\n".join(
            f"n=$(echo {_coded([max(text.lines, key=len)])} | base64 -d)\n"
            f'xargs -0 grep -l $a -wF -e "$n" < "$t" 2>/dev/null | sort -u | head -20 | while IFS= read -r f; do\n'
            f'  echo {_coded(text.lines)} | base64 -d | has "$f" && echo "fou""nd:{number}:$f" && break\ndone'
            for number, text in enumerate(batch)
        )
        said = await run(f'{_HAS}t=$(mktemp)\n{files} > "$t"\n{searches}\nrm -f "$t"; true')
        found += [(batch[int(match[1])].name, match[2].strip()) for match in _FOUND.finditer(said)]
    return [(name, place) for name, place in found if not place.startswith(("/proc", "/sys"))]


async def in_output(run: Run, commands: str, texts: Sequence[HiddenText]) -> list[str]:
    """Names of the texts that are in what the commands print, all lines of each."""
    found: list[str] = []
    for batch in _batches(texts):
        searches = "\n".join(
            f'echo {_coded(text.lines)} | base64 -d | has "$t" && echo "fou""nd:{number}:"'
            for number, text in enumerate(batch)
        )
        script = (
            f"{_HAS}t=$(mktemp)\n( {commands} ) 2>/dev/null | tr '\\0' '\\n' > \"$t\"\n{searches}\nrm -f \"$t\"; true"
        )
        found += [batch[int(match[1])].name for match in _FOUND.finditer(await run(script))]
    return found


def _batches(texts: Sequence[HiddenText]) -> list[list[HiddenText]]:
    batches: list[list[HiddenText]] = [[]]
    size = 0
    for text in texts:
        own = 2 * sum(len(line.encode()) + 1 for line in text.lines)
        if own > _MOST_SCRIPT:
            continue
        if size + own > _MOST_SCRIPT:
            batches.append([])
            size = 0
        batches[-1].append(text)
        size += own
    return [batch for batch in batches if batch]
