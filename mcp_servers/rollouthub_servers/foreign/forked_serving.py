"""Serves each session of a driver in a process of its own, forked from one that has loaded the library, and killed when
its connection closes.

    if __name__ == "__main__":
        import library  # once, for all sessions
        serve_forked(open_session)

For libraries that keep global state (random numbers, caches, files beside them) or may loop for ever: a session sees
nothing of another session, and a hanging session ends when its caller disconnects. Each session works in an empty
folder of its own, which is removed afterwards.
"""

import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

from rollouthub_servers.foreign.serving import Session, answer_all, socket_path

_HUNG_UP = select.POLLHUP | select.POLLRDHUP | select.POLLERR
_WORDS = 300
_FRAME = re.compile(r"^[\s*=-]*$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class _Child:
    pid: int
    watch: int
    """File descriptor that becomes readable once the process has ended."""
    line: socket.socket
    """The session's connection, watched to notice when the other side closes it."""
    folder: str
    """The session's working folder."""


class _Absent(ModuleType):
    """Stands in for a module that could not be installed; accessing a name of it raises ImportError."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(f"{self.__name__!r} is not installed")


def serve_forked(open_session: Callable[[], Session]) -> NoReturn:
    """Serve for ever, each connection in a forked process of its own; a session's `close` may not be called."""
    os.dup2(2, 1)  # the library prints
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each session takes three
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(socket_path())
    listener.listen(512)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    watches: dict[int, _Child] = {}
    lines: dict[int, _Child] = {}
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        for descriptor in ready:
            if descriptor in lines:
                poll.unregister(descriptor)
                _kill(lines.pop(descriptor).pid)
            elif descriptor in watches:
                child = watches.pop(descriptor)
                poll.unregister(descriptor)
                if lines.pop(child.line.fileno(), None) is not None:
                    poll.unregister(child.line)
                _kill(child.pid)  # what it has started
                os.waitpid(child.pid, 0)
                os.close(child.watch)
                child.line.close()
                shutil.rmtree(child.folder, ignore_errors=True)
        if listener.fileno() in ready:  # last: what it opens may get the number of what was closed above
            child = _forked(listener, watches.values(), open_session)
            if child is not None:
                poll.register(child.watch, select.POLLIN)
                poll.register(child.line, _HUNG_UP)
                watches[child.watch] = lines[child.line.fileno()] = child


def _forked(listener: socket.socket, others: Iterable[_Child], open_session: Callable[[], Session]) -> "_Child | None":
    line, _ = listener.accept()
    folder = ""
    try:
        folder = tempfile.mkdtemp(prefix="session-")
        pid = os.fork()
    except OSError:  # too many, or no room: this one is refused
        traceback.print_exc()
        line.close()
        shutil.rmtree(folder, ignore_errors=True)
        return None
    if pid == 0:
        try:
            os.setpgid(0, 0)
            _work_in(folder)
            listener.close()
            for other in others:  # nobody speaks for another session
                os.close(other.watch)
                other.line.close()
            answer_all(line, open_session)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    with suppress(OSError):  # whichever of both comes first
        os.setpgid(pid, pid)
    return _Child(pid, os.pidfd_open(pid), line, folder)


def _work_in(folder: str) -> None:
    os.chdir(folder)
    os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = folder


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def seed_all(seed: int) -> None:
    """Seed the random number generators that libraries share."""
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


def said(error: BaseException) -> str:
    """Format an error as one line: the first line of its message that contains words."""
    lines = [_COLOUR.sub("", line).strip() for line in str(error).splitlines()]
    words = next((line for line in lines if not _FRAME.match(line)), "")
    return f"{type(error).__name__}: {words[:_WORDS]}" if words else type(error).__name__


def stand_in(absent: Iterable[str]) -> None:
    """Make modules that could not be installed importable; only using such a module fails."""
    for name in absent:
        sys.modules[name] = _Absent(name)
