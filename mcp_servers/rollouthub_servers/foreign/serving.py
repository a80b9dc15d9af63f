"""The driver's side of a foreign process: JSON lines on a private socket. Standard library alone; runs anywhere.

    def open_session():
        world = World()
        return {"step": world.step, "verify": world.verify, "close": world.close}

    if __name__ == "__main__":
        serve(open_session)

Each connection is a session, in a thread of its own, ended by its last byte. A request `{"do": NAME, …}` calls the
function of that name with the other keys; what it returns is the answer. `Refused` says no in words that may be shown;
any other exception is the foreign code's failure.
"""

import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

Session = Mapping[str, Callable[..., Any]]
"""Name of a request → the function that answers it; `close`, if present, is called at the end of the session."""
_SHOWN = 2_000


class Refused(Exception):
    """The request is refused; the message goes to the caller, which may be an agent."""


def socket_path() -> str:
    """Path of the socket on which the driver has to listen."""
    return sys.argv[1]


def arguments() -> Any:
    """The arguments that the hub passed to this driver: its `ForeignProgram.arguments`."""
    return json.loads(sys.argv[2])


def serve(
    open_session: Callable[[], Session], *, one_at_a_time: bool = False, forked_seconds: "float | None" = None
) -> None:
    """Serve for ever. `one_at_a_time` is for libraries that do not support concurrent calls.

    With `forked_seconds` each session has a process of its own, forked from this one with everything it has imported:
    sessions share nothing, and a call that takes longer than that ends its session alone.
    """
    replies = os.dup(1)
    os.dup2(2, 1)  # the library prints
    os.close(replies)
    lock = threading.Lock() if one_at_a_time else None
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(socket_path())
    listener.listen(512)
    if forked_seconds is not None:
        signal.signal(signal.SIGCHLD, _reap)  # not ignored: the CPU time of ended sessions is then this process's
    while True:
        connection, _ = listener.accept()
        if forked_seconds is not None:
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                answer_all(connection, open_session, None, forked_seconds)
                os._exit(0)
            connection.close()
            continue
        threading.Thread(target=answer_all, args=(connection, open_session, lock), daemon=True).start()


def _reap(*_: Any) -> None:
    """Wait for the sessions that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def answer_all(
    connection: socket.socket,
    open_session: Callable[[], Session],
    lock: "threading.Lock | None" = None,
    most_seconds: float = 0.0,
) -> None:
    """Answer one connection's requests until it ends, then close its session."""
    session: Session | None = None
    with connection, connection.makefile("rwb") as stream:
        try:
            for line in stream:
                request = json.loads(line)
                do = request.pop("do")
                if most_seconds:
                    signal.setitimer(signal.ITIMER_REAL, most_seconds)  # its signal ends the process
                try:
                    if do == "ping":
                        reply: dict[str, Any] = {"is": None}
                    else:
                        opened: Session = session if session is not None else _called(lock, open_session, {})
                        session = opened
                        reply = {"is": _called(lock, opened[do], request)}
                    text = json.dumps(reply, allow_nan=False, ensure_ascii=False)
                except Refused as refusal:
                    text = json.dumps({"refused": str(refusal)}, ensure_ascii=False)
                except (Exception, SystemExit) as error:
                    traceback.print_exc()
                    text = json.dumps({"failed": f"{type(error).__name__}: {error}"[:_SHOWN]}, ensure_ascii=False)
                if most_seconds:
                    signal.setitimer(signal.ITIMER_REAL, 0.0)
                stream.write(text.encode(errors="replace") + b"\n")  # half a surrogate pair is no text
                stream.flush()
        except OSError:
            pass  # the hub is no longer interested
        finally:
            if session is not None and "close" in session:
                try:
                    _called(lock, session["close"], {})
                except Exception:
                    traceback.print_exc()


def _called(lock: "threading.Lock | None", function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    if lock is None:
        return function(**given)
    with lock:
        return function(**given)
