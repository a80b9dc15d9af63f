"""What drivers of served applications share: what is loaded once for all sessions, and what each does for itself.

Libraries are loaded once, and an application's own modules are compiled once; each session then imports them itself, in
its own folder with a copy of the files beside them. So nothing that they keep or open is another session's. Standard
library alone; runs in the application's own environment.
"""

import importlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from rollouthub_servers.foreign.forked_serving import said

_COPIED_BYTES = 1 << 20
"""Files larger than this many bytes are linked instead of copied; a linked file cannot be written to."""
_CODE = ("*.py", "*.pyc", "__pycache__", "uv.lock")


def imported_app(package: str, app: str) -> Any:
    """Import `module:name`, either from the folder as a package or from within the folder.

    Raises:
        SystemExit: neither import works; the message says why.
    """
    module, _, name = app.partition(":")
    own = module.removeprefix("envs.").removeprefix(f"{package}.")
    problems: list[str] = []
    for path in (f"{package}.{own}", own):
        try:
            found: Any = importlib.import_module(path)
            for part in (name or "app").split("."):
                found = getattr(found, part)
            return found
        except Exception as error:
            problems.append(f"{path}: {said(error)}")
    raise SystemExit("; ".join(problems))


def bring_files(folder: str) -> None:
    """Copy or link the non-code files of an application's folder into the session's working folder."""
    here, ignore = Path.cwd(), shutil.ignore_patterns(*_CODE)
    for root, folders, files in os.walk(folder):
        left_out = ignore(root, [*folders, *files])
        folders[:] = [name for name in folders if name not in left_out]
        target = here / Path(root).relative_to(folder)
        target.mkdir(exist_ok=True)
        for name in files:
            if name in left_out:
                continue
            source = Path(root, name)
            if source.stat().st_size > _COPIED_BYTES:
                (target / name).symlink_to(source)
            else:
                (target / name).write_bytes(source.read_bytes())


def load_libraries(load: Callable[[], Any], folder: str, known: Sequence[str]) -> Sequence[str]:
    """Load what an application imports, but for its own modules, which are compiled: `load` is quick then.

    `known` are the libraries that were found at its import; where there are none, they are found out in a process that
    ends with it. Gives their names.

    Raises:
        SystemExit: it cannot be imported; says why.
    """
    sys.path[:0] = [str(Path(folder).parent), folder]
    hook = FileFinder.path_hook((_Compiled, [".py"]))

    def own(path: str) -> Any:
        if not Path(path).is_relative_to(folder):
            raise ImportError(path)
        return hook(path)

    sys.path_hooks.insert(0, own)
    names = known or _found_out(load, folder)
    for file in Path(folder).rglob("*.py"):
        with suppress(SyntaxError, ValueError):
            _Compiled.codes[str(file)] = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            sys.stderr.write(f"{name}: {said(error)}\n")
    return names


class _Compiled(SourceFileLoader):
    """Loads the application's own modules from code that was compiled once."""

    codes: dict[str, CodeType] = {}

    def get_code(self, fullname: str) -> CodeType | None:
        return self.codes.get(self.path) or super().get_code(fullname)


def _found_out(load: Callable[[], Any], folder: str) -> list[str]:
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        with os.fdopen(write, "w") as stream:
            stream.write(json.dumps(_loaded_by(load, folder)))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        told = stream.read()
    os.waitpid(pid, 0)
    if not told:
        raise SystemExit("it ended its process while it was imported")
    found: dict[str, Any] = json.loads(told)
    if found["problem"]:
        raise SystemExit(found["problem"])
    return found["libraries"]


def _loaded_by(load: Callable[[], Any], folder: str) -> dict[str, Any]:
    """The installed modules that an import loads."""
    before, problem = set(sys.modules), ""
    try:
        os.chdir(tempfile.mkdtemp(prefix="import-"))
        bring_files(folder)
        load()
    except SystemExit as error:
        problem = str(error) or "it ended itself"
    except Exception as error:
        problem = said(error)
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    libraries = [name for name, file in files.items() if isinstance(file, str) and "site-packages" in file]
    return {"problem": problem, "libraries": [name for name in libraries if name not in before]}
