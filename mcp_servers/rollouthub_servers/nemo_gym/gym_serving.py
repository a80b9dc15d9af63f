"""Serves an ASGI application over HTTP, by a process for each session where it can be forked. Runs in the foreign
process.

A session's first request, `serve`, is answered with the name of the socket, beside the driver's, that its HTTP requests
go to. A session that is forked has loaded application, memory and sockets to itself, and ends with its connection.
"""

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from rollouthub_servers.foreign.forked_serving import serve_forked
from rollouthub_servers.foreign.serving import serve, socket_path

_POLL_SECONDS = 0.005
_KEEP_ALIVE_SECONDS = 600


def serve_app(app: Any, folder: Path, *, is_shared: bool) -> NoReturn:
    """Serve for ever. Sessions work in `folder`; they share a process where `is_shared`, or where the application has
    threads, which a fork would not take along.
    """
    threads = len(list(Path("/proc/self/task").iterdir()))
    if is_shared or threads > 1:
        if not is_shared:
            sys.stderr.write(f"it has {threads} threads once it is loaded, so that its sessions share this process\n")
        socket = _started(app)
        serve(lambda: _session(lambda: {"socket": socket, "forks": False}))
        raise SystemExit("it serves for ever")

    def own() -> "dict[str, Any]":
        os.chdir(folder)
        return {"socket": _started(app), "forks": True}

    serve_forked(lambda: _session(own))


def _session(begin: "Callable[[], dict[str, Any]]") -> "dict[str, Callable[..., Any]]":
    return {"serve": begin}


def _started(app: Any) -> str:
    """Start to serve in another thread of this process; the name of the socket."""
    import uvicorn

    path = Path(socket_path()).with_name(f"http-{secrets.token_hex(8)}")
    config = uvicorn.Config(
        app, uds=str(path), access_log=False, log_level="warning", timeout_keep_alive=_KEEP_ALIVE_SECONDS
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("its application does not start")
        time.sleep(_POLL_SECONDS)
    return path.name
