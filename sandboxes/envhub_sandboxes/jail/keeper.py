"""One run: walls, limits, a deadline, its output kept within bounds, and nothing left of it afterwards."""

import os
import resource
import select
import shutil
import signal
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from envhub_sandboxes.jail import program, request, system, tree
from envhub_sandboxes.jail.capture import Capture
from envhub_sandboxes.jail.walls import FIRST_UID, Namespaces, OwnUser, SameUser, Walls

CHANNEL = 3
"""The file descriptor under which a program finds the socket it was given."""
OPEN_FILES = 64
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def keep(control: socket.socket, channel: int | None, walls: Walls) -> NoReturn:
    """Do what the hub asks for on `control`, answer there, and end; killed work ends with the hub, too."""
    try:
        header, code, stdin = request.receive(control)
        reply = _Run(control, walls, header, code, stdin, channel).reply()
        control.sendall(reply)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # nobody waits for it any more
    except BaseException as error:
        with suppress(OSError):
            control.sendall(request.pack({"fault": f"{type(error).__name__}: {error}"}, b"", b""))
    finally:
        os._exit(0)


class _Run:
    """A program's process and what the keeper knows of it."""

    def __init__(
        self,
        control: socket.socket,
        walls: Walls,
        header: dict[str, Any],
        code: bytes,
        stdin: bytes,
        channel: int | None,
    ) -> None:
        self._control, self._walls, self._header, self._code = control, walls, header, code
        self._channel = channel
        self._stdin = os.memfd_create("stdin")
        with os.fdopen(os.dup(self._stdin), "wb") as file:
            file.write(stdin)
        os.lseek(self._stdin, 0, os.SEEK_SET)
        self._reads: dict[int, Capture] = {}
        self._user = FIRST_UID + os.getpid()
        self._scratch: str | None = None
        self._is_clean = True

    def reply(self) -> bytes:
        """Run the program to its end and say what became of it."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._walls.enter()
        if not isinstance(self._walls, Namespaces):
            self._scratch = tempfile.mkdtemp(prefix="envhub-run-")
            if isinstance(self._walls, OwnUser):
                os.chown(self._scratch, self._user, self._user)
        (out, out_end), (err, err_end), (status, status_end) = os.pipe(), os.pipe(), os.pipe()
        self._reads = {out: Capture(self._header["output_bytes"]), err: Capture(self._header["output_bytes"])}
        started = time.monotonic()
        first = os.fork()
        if first == 0:
            self._begin(out_end, err_end, status_end)
        for end in (out_end, err_end, status_end, self._stdin, *([] if self._channel is None else [self._channel])):
            os.close(end)
        try:
            ending = self._watch(first, started)
        finally:
            self._kill(first)
        self._drain()
        kept = [capture.kept() for capture in self._reads.values()]
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_seconds = usage.ru_utime + usage.ru_stime
        code = int.from_bytes(os.read(status, 4), "big", signed=True) if ending == "ended" else None
        # A program that handles the first signal gets the second, a second later.
        is_over = code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu_seconds > self._header["cpu_seconds"])
        header = {
            "status": code,
            "used_up_its_cpu": is_over,
            "timed_out": ending == "late",
            "survived": not self._is_clean,
            "gaps": [place for _, place, _ in kept],
            "dropped": [dropped for _, _, dropped in kept],
            "seconds": time.monotonic() - started,
            "cpu_seconds": cpu_seconds,
        }
        return request.pack(header, kept[0][0], kept[1][0])

    def _begin(self, out: int, err: int, status: int) -> NoReturn:
        """In the first process of the run: fork the program, and say how it ended."""
        code = 1
        try:
            self._control.close()
            system.die_with_parent()
            if isinstance(self._walls, Namespaces):
                self._scratch = self._walls.furnish()
            pid = os.fork()
            if pid == 0:
                self._become_program(out, err)
            for end in (out, err, self._stdin, *([] if self._channel is None else [self._channel])):
                os.close(end)
            while True:  # an init reaps every orphan of its namespace
                ended, how = os.waitpid(-1, 0)
                if ended == pid:
                    os.write(status, os.waitstatus_to_exitcode(how).to_bytes(4, "big", signed=True))
                    code = 0
                    break
        except BaseException as error:
            os.write(err, f"the sandbox could not start the program: {error}\n".encode())
        finally:
            os._exit(code)

    def _become_program(self, out: int, err: int) -> NoReturn:
        try:
            os.setsid()
            for fd, place in ((self._stdin, 0), (out, 1), (err, 2)):
                os.dup2(fd, place)
            keep_open = CHANNEL
            if self._channel is not None:
                os.dup2(self._channel, CHANNEL)
                keep_open += 1
            os.closerange(keep_open, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            assert self._scratch is not None
            os.chdir(self._scratch)
            os.environ.clear()
            os.environ.update(ENVIRONMENT, HOME=self._scratch, TMPDIR=self._scratch)
            with suppress(OSError):  # where memory runs out, this process goes first
                Path("/proc/self/oom_score_adj").write_text("1000")
            self._limit()
            self._walls.drop(self._user - FIRST_UID)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            system.let_own_user_look(not self._header["is_hidden"])
            program.run(self._code, is_compiled=self._header["is_compiled"])
        except BaseException as error:
            os.write(2, f"the sandbox could not start the program: {error}\n".encode())
        finally:
            os._exit(127)

    def _limit(self) -> None:
        cpu = max(1, round(self._header["cpu_seconds"]))
        processes = self._header["processes"]
        if isinstance(self._walls, SameUser):
            processes += _processes_of_this_user()  # the limit is the user's, not the run's
        for what, soft, hard in (
            (resource.RLIMIT_CPU, cpu, cpu + 1),
            (resource.RLIMIT_AS, self._header["memory_bytes"], self._header["memory_bytes"]),
            (resource.RLIMIT_FSIZE, self._header["file_bytes"], self._header["file_bytes"]),
            (resource.RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES),
            (resource.RLIMIT_NPROC, processes, processes),
            (resource.RLIMIT_CORE, 0, 0),
            (resource.RLIMIT_MEMLOCK, 0, 0),
            (resource.RLIMIT_MSGQUEUE, 0, 0),
        ):
            resource.setrlimit(what, (soft, hard))

    def _watch(self, first: int, started: float) -> str:
        """Take in output until the program ends, is late, or nobody waits for it."""
        waiting = select.poll()
        ended = os.pidfd_open(first)
        for fd in (*self._reads, ended, self._control.fileno()):
            waiting.register(fd, select.POLLIN)
        deadline = started + self._header["wall_seconds"]
        while (left := deadline - time.monotonic()) > 0:
            for fd, _ in waiting.poll(left * 1000):
                if fd == ended:
                    return "ended"
                if fd not in self._reads:
                    raise EOFError  # the hub has hung up; it says nothing more otherwise
                piece = os.read(fd, 1 << 16)
                self._reads[fd].add(piece)
                if not piece:
                    waiting.unregister(fd)
        return "late"

    def _kill(self, first: int) -> None:
        """End every process of the run, and see that none is left."""
        if isinstance(self._walls, Namespaces):
            # The kernel ends a PID namespace with its first process, which is not reaped before all others are.
            with suppress(ProcessLookupError):
                os.kill(first, signal.SIGKILL)
            os.waitpid(first, 0)
            return
        if isinstance(self._walls, OwnUser):
            tree.kill_user(self._user)
        self._is_clean = tree.kill_descendants()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _drain(self) -> None:
        """What was written and not yet read; its writers are dead."""
        for fd, capture in self._reads.items():
            os.set_blocking(fd, False)
            with suppress(BlockingIOError):
                while piece := os.read(fd, 1 << 16):
                    capture.add(piece)


def _processes_of_this_user() -> int:
    user = os.getuid()
    count = 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            with suppress(OSError):
                count += entry.name.isdigit() and entry.stat().st_uid == user
    return count
