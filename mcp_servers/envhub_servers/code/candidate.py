"""The process that holds the agent's code: it is given arguments, one call after the other, and nothing else.

Whatever the code does to this process, it can only change what it answers. Runs inside the sandbox, after the source
of the modules it names.
"""

import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # their source stands above this one's in the program
    from envhub_servers.code.answer import find_program
    from envhub_servers.code.values import TooLong, Unsendable, decode, encode, receive, send

CHANNEL = 3
SHOWN = 300


def main() -> None:
    """Load the answer, then call its function until nobody asks any more."""
    request = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    program = find_program(request["prompt"], request["answer"], request["entry_point"])
    namespace: dict[str, Any] = {"__name__": "answer"}
    exec(compile(program, "answer.py", "exec", dont_inherit=True), namespace)
    function = namespace[request["entry_point"]]
    channel = socket.socket(fileno=CHANNEL)
    while True:
        try:
            call = receive(channel)
        except (EOFError, OSError):
            return
        try:
            send(channel, _reply(function, call))
        except TooLong:
            send(channel, {"odd": "more than a message can hold"})


def _reply(function: Any, call: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": encode(function(*decode(call["args"]), **decode(call["kwargs"])))}
    except Unsendable as error:
        return {"odd": str(error)}
    except Exception as error:
        return {"raised": type(error).__name__, "text": str(error)[:SHOWN]}


if __name__ == "__main__":
    main()
