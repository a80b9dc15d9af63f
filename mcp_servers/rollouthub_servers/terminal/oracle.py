"""The reference solution as tool calls of the oracle: the calls write its files and run it, and leave the files there.

The files are therefore only in the container of an oracle's episode. They are not removed afterwards, because some
tasks expect their results in `/solution`.
"""

import base64
import json
import shlex
from collections.abc import Iterator, Sequence

from rollouthub.messages import Message, ToolRequest, assistant
from rollouthub.sandbox import File
from rollouthub_servers.terminal.harbor.task import SOLVE_SCRIPT

_CHUNK = 45_000
"""Most bytes of a file in one call."""
_CHOOSE = (
    "dir=/solution; mkdir -p $dir 2>/dev/null && [ -w $dir ] || dir=/tmp/solution; umask 022; mkdir -p $dir && cd $dir"
)
"""Shell code that chooses the folder, since an agent that is not root may not be able to create the usual one."""


def solution_messages(files: Sequence[File], workdir: str, seconds: float, number: int = 1) -> list[Message]:
    """Calls that write the files, and run `solve.sh` in the working directory for at most `seconds`.

    Variables that it needs may be the user's keys, and are never part of these messages.
    """
    commands = [f"{_CHOOSE}\n{step}" for step in _writes(files)]
    commands.append(
        f"{_CHOOSE}; cd {shlex.quote(workdir)} && export DEBIAN_FRONTEND=noninteractive\n"
        f"read -r first < $dir/{SOLVE_SCRIPT}\n"
        f'case "$first" in "#!"*) $dir/{SOLVE_SCRIPT} ;; *) bash $dir/{SOLVE_SCRIPT} ;; esac'
    )
    return [
        assistant("", _request(f"reference-{number}-{index}", command, seconds))
        for index, command in enumerate(commands, start=1)
    ]


def _writes(files: Sequence[File]) -> Iterator[str]:
    for file in files:
        mode = file.mode | (0o111 if file.path == SOLVE_SCRIPT else 0)
        name = shlex.quote(file.path)
        folder = shlex.quote(file.path.rpartition("/")[0] or ".")
        chunks = [file.data[at : at + _CHUNK] for at in range(0, len(file.data), _CHUNK)] or [b""]
        for index, chunk in enumerate(chunks):
            text = base64.encodebytes(chunk).decode()
            yield (
                f"mkdir -p {folder}\nbase64 -d {'>' if index == 0 else '>>'} {name} <<'END'\n{text}END\n"
                f"chmod {mode:o} {name}"
            )


def _request(request_id: str, command: str, seconds: float) -> ToolRequest:
    arguments = {"command": command, "timeout_seconds": seconds}
    return ToolRequest(id=request_id, name="bash", arguments=json.dumps(arguments))
