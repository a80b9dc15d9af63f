"""The driver of one scenario: its application, imported once, and its verifiers. Imports `openapi_tools` besides.

Each session is forked, with a folder and a copy of the database of its own: the application's engine opens a relative
path at each connection, so that no session's connections reach another's file. Both databases are held as bytes from
before the first session: what a session does to files does not reach the sessions after it.
"""

# Its libraries are installed in the foreign environment alone.
# pyright: basic, reportMissingImports=false

import asyncio
import base64
import gc
import inspect
import json
import os
import re
import secrets
import shutil
import sqlite3
import sys
import types
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy.pool import NullPool

from rollouthub_servers.agent_world_model.openapi_tools import Operation, operations_of, tools_of
from rollouthub_servers.foreign.serving import Refused, Session, arguments, serve

_WORLD, _INITIAL = "world.db", "initial.db"
_VERIFIER = "verify_task_completion"
MOST_STATE_BYTES = 16 << 20
"""Most bytes of a database that is saved or restored."""
_create_engine = sqlalchemy.create_engine


def _own_engine(*_: Any, **given: Any) -> Any:
    """Make an engine for the session's own file, whatever address the application names, as its own runner does."""
    return _create_engine("sqlite://", creator=_connected, poolclass=NullPool, **_kept(given))


def _connected() -> sqlite3.Connection:
    # SQLAlchemy would make an address in a URL absolute when the engine is made, before the session has its folder.
    return sqlite3.connect(_WORLD, check_same_thread=False)


def _replace_engines() -> None:
    """Give every engine that the application makes the session's own file."""
    # The asynchronous one is made by the other, and takes it as it is when it is imported.
    with suppress(ImportError):  # where they are not installed no application has an asynchronous engine
        import aiosqlite
        import sqlalchemy.ext.asyncio as asynchronous

        create_async = asynchronous.create_async_engine

        def own_async_engine(*_: Any, **given: Any) -> Any:
            made = {"async_creator": lambda: aiosqlite.connect(_WORLD), "poolclass": NullPool}
            return create_async("sqlite+aiosqlite://", **made, **_kept(given))

        asynchronous.create_async_engine = asynchronous.engine.create_async_engine = own_async_engine
    sqlalchemy.create_engine = sqlalchemy.engine.create_engine = _own_engine


def _kept(given: "dict[str, Any]") -> "dict[str, Any]":
    return {key: value for key, value in given.items() if key in ("echo", "future")}


def build_database(file: Path, tables: "list[dict[str, Any]]", samples: "list[dict[str, Any]]") -> None:
    """The database of a scenario; a statement that fails is told of and left out, as its own runner does."""
    with sqlite3.connect(file) as connection:
        for table in tables:
            for statement in (table["ddl"], *table.get("indexes", ()), *table.get("examples", ())):
                _execute(connection, statement)
        connection.execute("PRAGMA foreign_keys = ON")
        for table in samples:
            for statement in table.get("insert_statements", ()):
                _execute(connection, statement)
    connection.close()


def _execute(connection: sqlite3.Connection, statement: str) -> None:
    try:
        connection.execute(statement)
    except sqlite3.Error as error:
        sys.stderr.write(f"left out: {error}: {statement[:200]}\n")


def load_application(code: str) -> Any:
    """Load the application that a scenario's code makes, without starting a server."""
    module = types.ModuleType("scenario")
    server = types.ModuleType("uvicorn")
    vars(server)["run"] = lambda *_, **__: None
    sys.modules.update(scenario=module, uvicorn=server)
    _replace_engines()
    os.environ["DATABASE_PATH"] = f"sqlite:///{_WORLD}"
    exec(compile(code, "scenario.py", "exec"), vars(module))
    return vars(module)["app"]


class AwmEpisode:
    """One session: a folder with a copy of the database, and an event loop for the application's requests."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._folder = secrets.token_hex(16)  # nobody guesses another's
        Path(_BASE, self._folder).mkdir()
        os.chdir(Path(_BASE, self._folder))
        self._lifespan: Any = None

    def open(self) -> "dict[str, Any]":
        """Begin an episode; return the folder, which `verify` needs, and the tools."""
        Path(_WORLD).write_bytes(WORLD)
        self._lifespan = APPLICATION.router.lifespan_context(APPLICATION)
        self._loop.run_until_complete(self._lifespan.__aenter__())
        return {"folder": self._folder, "tools": TOOLS}

    def call(self, name: str, given: "dict[str, Any]") -> str:
        """Call an operation; return the answer, or the application's error message for the agent."""
        operation = OPERATIONS.get(name)
        if operation is None:
            raise Refused(f"there is no tool {name!r}"[:200])
        status, text = self._loop.run_until_complete(_requested(operation, given))
        if status >= 400:
            raise Refused(f"{status}: {text}")
        return text

    def verify(self, code: str, folder: str, answer: str) -> str:
        """Run a verifier on the initial database and an episode's final one; it finds `complete` or `others`."""
        Path(_INITIAL).write_bytes(INITIAL)
        final = f"file:{Path(_BASE, folder, _WORLD)}?mode=ro"
        with sqlite3.connect(final, uri=True) as held, sqlite3.connect(_WORLD) as copy:
            held.backup(copy)
        held.close()
        copy.close()
        for name in (_INITIAL, _WORLD):
            Path(name).chmod(0o444)
        known: dict[str, Any] = {"sqlite3": sqlite3, "json": json, "os": os, "re": re}
        exec(compile(code, "verifier.py", "exec"), known)
        function = known[_VERIFIER]
        given = {"initial_db_path": _INITIAL, "final_db_path": _WORLD, "final_answer": answer}
        given = {key: str(Path(value).absolute()) if key != "final_answer" else value for key, value in given.items()}
        taken = inspect.signature(function).parameters
        found = function(**{key: value for key, value in given.items() if key in taken})
        if not isinstance(found, dict) or found.get("result") not in ("complete", "others"):
            raise ValueError(f"the verifier gave {str(found)[:200]!r}, and no verdict")
        return found["result"]

    def save(self) -> str:
        """Return the database as it is now, packed, as text."""
        with sqlite3.connect(f"file:{_WORLD}?mode=ro", uri=True) as held, sqlite3.connect(":memory:") as copy:
            held.backup(copy)
        data = copy.serialize()
        held.close()
        copy.close()
        if len(data) > MOST_STATE_BYTES:
            raise ValueError(f"the database has {len(data):,} bytes, and {MOST_STATE_BYTES:,} are kept")
        return base64.b64encode(zlib.compress(data)).decode()

    def restore(self, database: str) -> None:
        """Return to a database that `save` gave."""
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(database), MOST_STATE_BYTES + 1)
        if len(data) > MOST_STATE_BYTES:
            raise ValueError(f"the state has more than {MOST_STATE_BYTES:,} bytes")
        with sqlite3.connect(":memory:") as kept, sqlite3.connect(_WORLD) as world:
            kept.deserialize(data)
            kept.backup(world)
        kept.close()
        world.close()

    def close(self) -> None:
        """Remove the session's folder."""
        if self._lifespan is not None:
            with suppress(Exception):
                self._loop.run_until_complete(self._lifespan.__aexit__(None, None, None))
        os.chdir(_BASE)
        shutil.rmtree(Path(_BASE, self._folder), ignore_errors=True)


async def _requested(operation: Operation, given: "dict[str, Any]") -> "tuple[int, str]":
    """Send a request to the application as a server would."""
    path, query, body = operation.request(given)
    from urllib.parse import unquote

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": operation.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    parts: list[bytes] = []
    status, has_asked = 0, False

    async def receive() -> "dict[str, Any]":
        nonlocal has_asked
        if has_asked:
            await asyncio.Event().wait()
        has_asked = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: "dict[str, Any]") -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    try:
        await APPLICATION(scope, receive, send)
    except Exception as error:
        if status < 500:
            return 500, f"{type(error).__name__}: {error}"[:500]
    return status, b"".join(parts).decode(errors="replace")


def open_session() -> Session:
    """Return a session's functions."""
    episode = AwmEpisode()
    return {
        "open": episode.open,
        "call": episode.call,
        "verify": episode.verify,
        "save": episode.save,
        "restore": episode.restore,
        "close": episode.close,
    }


if __name__ == "__main__":
    told = arguments()
    _BASE = Path.cwd()
    scenario = json.loads(Path(told["scenario"]).read_text(encoding="utf-8"))
    build_database(_BASE / _INITIAL, scenario["db"]["db_schema"]["tables"], scenario["sample"]["sample_data"]["tables"])
    shutil.copy(_INITIAL, _WORLD)
    APPLICATION = load_application(scenario["env"]["full_code"])
    INITIAL, WORLD = Path(_INITIAL).read_bytes(), Path(_WORLD).read_bytes()
    OPERATIONS = operations_of(APPLICATION.openapi())
    TOOLS = tools_of(OPERATIONS)
    gc.freeze()
    serve(open_session, forked_seconds=float(told["seconds"]))
