"""The process that runs the agent's code: it receives arguments of one call at a time, and nothing else.

The code can manipulate this process, but with that it only changes its own replies. Runs in its own sandbox, below
the source of the modules it needs: standard library only, Python 3.9 or later.
"""

import os
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # their source stands above this one's in the program
    from rollouthub_servers.code.answer import find_program
    from rollouthub_servers.code.values import TooLong, Unsendable, decode, encode, pack, receive

REPLIES, CALLS, LAST_WORDS = 3, 4, 5
"""File descriptors to which this process's stdout, stdin and stderr are moved before the agent's code runs."""
SHOWN = 300


def main() -> None:
    """Load the answer, then call its function for each request until the input ends."""
    _part_streams()
    try:
        _serve()
    except SystemExit:
        raise
    except BaseException:
        os.write(LAST_WORDS, traceback.format_exc().encode(errors="replace"))
        raise SystemExit(1) from None


def _part_streams() -> None:
    """Replace stdin, stdout and stderr by /dev/null, so that what the agent's code prints is not taken as a reply."""
    for taken, place in ((1, REPLIES), (0, CALLS), (2, LAST_WORDS)):
        os.dup2(taken, place, inheritable=False)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)


def _serve() -> None:
    calls, replies = os.fdopen(CALLS, "rb"), os.fdopen(REPLIES, "wb")
    request = receive(calls)
    program = find_program(request["prompt"], request["answer"], request["entry_point"])
    namespace: dict[str, Any] = {"__name__": "answer"}
    exec(compile(program, "answer.py", "exec", dont_inherit=True), namespace)
    function = namespace[request["entry_point"]]
    while True:
        try:
            call = receive(calls)
        except (EOFError, OSError):
            return
        try:
            reply = pack(_reply(function, call))
        except TooLong:
            reply = pack({"odd": "more than a message can hold"})
        replies.write(reply)
        replies.flush()


def _reply(function: Any, call: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": encode(function(*decode(call["args"]), **decode(call["kwargs"])))}
    except Unsendable as error:
        return {"odd": str(error)}
    except Exception as error:
        return {"raised": type(error).__name__, "text": str(error)[:SHOWN]}


if __name__ == "__main__":
    main()
