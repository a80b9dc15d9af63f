"""Scenarios of AgentWorldModel's published shape, made by a script: an application over SQLite, rows, verifiers."""

import json
from pathlib import Path
from typing import Any

CANARY = "canary-9c44"
_APPLICATION = """
import os
from fastapi import FastAPI, HTTPException, Path
from pydantic import BaseModel, Field
from sqlalchemy import Column, Integer, String, create_engine
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import declarative_base, sessionmaker

DATABASE_PATH = os.getenv("DATABASE_PATH", "sqlite:///outputs/databases/notes.db")
engine = create_engine(DATABASE_PATH, connect_args={"check_same_thread": False})
counting_engine = create_async_engine("sqlite+aiosqlite:///outputs/databases/notes.db")
SessionLocal = sessionmaker(bind=engine, autoflush=False, autocommit=False)
Base = declarative_base()


class Note(Base):
    __tablename__ = "notes"
    id = Column(Integer, primary_key=True)
    user_id = Column(Integer, nullable=False)
    text = Column(String, nullable=False)


Base.metadata.create_all(engine)
app = FastAPI(title="Notes")


class NoteBody(BaseModel):
    text: str = Field(..., description="What to write down.")


class NoteModel(BaseModel):
    id: int
    text: str


@app.get("/api/notes", operation_id="list_notes", summary="All notes of the user.", response_model=list[NoteModel])
def list_notes(contains: str = ""):
    with SessionLocal() as session:
        rows = session.query(Note).filter(Note.user_id == 1, Note.text.contains(contains)).order_by(Note.id).all()
        return [NoteModel(id=row.id, text=row.text) for row in rows]


@app.get("/api/notes/count", operation_id="count_notes")
async def count_notes():
    async with counting_engine.connect() as connection:
        return {"count": (await connection.execute(select(func.count()).select_from(Note))).scalar_one()}


@app.post("/api/notes", operation_id="verify", summary="Write a note down.", response_model=NoteModel)
def add_note(body: NoteBody):
    with SessionLocal() as session:
        row = Note(user_id=1, text=body.text)
        session.add(row)
        session.commit()
        return NoteModel(id=row.id, text=row.text)


@app.delete("/api/notes/{note_id}", operation_id="delete_note", summary="Remove a note.")
async def delete_note(note_id: int = Path(..., description="Which note.")):
    with SessionLocal() as session:
        row = session.get(Note, note_id)
        if row is None:
            raise HTTPException(404, "Note not found")
        session.delete(row)
        session.commit()
        return {"status": "deleted"}


@app.post("/api/hang", operation_id="hang")
async def hang():
    while True:
        pass


if __name__ == "__main__":
    import uvicorn
    uvicorn.run(app, host="127.0.0.1", port=8001)
"""
_VERIFIER = f'''
def verify_task_completion(initial_db_path: str, final_db_path: str, final_answer: str | None = None) -> dict:
    def notes(path):
        connection = sqlite3.connect(f"file:{{path}}?mode=ro", uri=True)
        return {{text for (text,) in connection.execute("SELECT text FROM notes WHERE user_id = 1")}}
    if "broken" in (final_answer or ""):
        raise ValueError("a verifier of its author's making")
    is_added = notes(final_db_path) - notes(initial_db_path) == {{"{CANARY}"}}
    return {{"result": "complete" if is_added else "others"}}
'''


def write_files(folder: Path, count: int = 1) -> Path:
    """The five files, of some scenarios; the last has verifiers for a model alone."""
    names = [f"Notes {number}" for number in range(1, count + 1)]
    ddl = "CREATE TABLE notes (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, text TEXT NOT NULL);"
    tables = [{"name": "notes", "ddl": ddl, "indexes": ["CREATE INDEX notes_user ON notes (user_id);"]}]
    rows = ["INSERT INTO notes VALUES (1, 1, 'milk');", "INSERT INTO nowhere VALUES (1);"]
    samples = {"tables": [{"table_name": "notes", "insert_statements": rows}]}
    tasks = ["Write down what you were told.", "Tell how many notes there are."]
    judged = {"code": "def verify_task(initial_db_path, final_db_path): return {}"}
    files: dict[str, list[dict[str, Any]]] = {
        "gen_tasks": [{"scenario": name, "tasks": tasks} for name in names],
        "gen_db": [{"scenario": name, "db_schema": {"tables": tables}, "db_path": "x.db"} for name in names],
        "gen_sample": [{"scenario": name, "sample_data": samples} for name in names],
        "gen_envs": [{"scenario": name, "full_code": _APPLICATION} for name in names],
        "gen_verifier.pure_code": [
            {"scenario": name.lower().replace(" ", "_"), "task_idx": index, "task": text, "verification": verification}
            for name in names
            for index, (text, verification) in enumerate(zip(tasks, ({"code": _VERIFIER}, judged), strict=True))
        ],
    }
    folder.mkdir(exist_ok=True)
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


_PLAIN = """
import json
import os
import shutil
import stat
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from sqlalchemy import create_engine

engine = create_engine("sqlite:///elsewhere.db")
ROUTES = {
    ("POST", "/notes"): "verify", ("GET", "/notes"): "list_notes", ("POST", "/hang"): "hang", ("GET", "/fail"): "open",
    ("GET", "/spoil"): "spoil", ("GET", "/garble"): "garble",
}


class Router:
    @asynccontextmanager
    async def lifespan_context(self, app):
        yield


class Application:
    router = Router()

    def openapi(self):
        text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Note"}}}}
        paths = {}
        for (method, path), name in ROUTES.items():
            about = {"operationId": name, **({"requestBody": body} if method == "POST" else {})}
            paths.setdefault(path, {})[method.lower()] = about
        return {"paths": paths, "components": {"schemas": {"Note": text}}}

    async def __call__(self, scope, receive, send):
        status, found = 200, None
        asked = await receive()
        name = ROUTES.get((scope["method"], scope["path"]))
        while name == "hang":
            pass
        if name == "open":
            raise ValueError("it breaks")
        for number in os.listdir("/proc/self/fd") if name == "garble" else ():
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(int(number)).st_mode):
                    os.write(int(number), b"what?\\n")
        if name == "spoil":
            for file in Path("..").glob("*.db"):
                shutil.copy("world.db", file)
        with engine.connect() as connection:
            if name == "verify":
                given = json.loads(asked["body"])
                if "text" not in given:
                    status, found = 422, "text is missing"
                else:
                    connection.execute("INSERT INTO notes (user_id, text) VALUES (1, ?)", (given["text"],))
            else:
                found = [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY id")]
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(found).encode()})


app = Application()
"""
_LIBRARY = """
import os
import sqlite3
import sys
from contextlib import closing, contextmanager


class Engine:
    def __init__(self, url, creator):
        file = os.path.abspath(url.removeprefix("sqlite:///"))  # as SQLAlchemy does, when the engine is made
        self.creator = creator or (lambda: sqlite3.connect(file))

    @contextmanager
    def connect(self):
        with closing(self.creator()) as connection, connection:
            yield connection


def create_engine(url, connect_args=None, poolclass=None, creator=None):
    return Engine(url, creator)


engine = pool = sys.modules["sqlalchemy.pool"] = sys.modules[__name__]
NullPool = None
"""


def write_plain_library(folder: Path) -> Path:
    """What stands for SQLAlchemy where it is not installed; a folder to import from."""
    folder.mkdir()
    (folder / "sqlalchemy.py").write_text(_LIBRARY)
    return folder


def write_plain_files(folder: Path) -> Path:
    """Two scenarios whose application needs no library that is not installed."""
    file = write_files(folder, 2) / "gen_envs.jsonl"
    rows = [{**json.loads(line), "full_code": _PLAIN} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
