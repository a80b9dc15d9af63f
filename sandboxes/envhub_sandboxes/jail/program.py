"""Running Python code in a process that was forked for it, as `python main.py` would."""

import atexit
import linecache
import marshal
import os
import sys
import threading
import traceback
from types import CodeType, ModuleType
from typing import Any, NoReturn, cast

FILE = "main.py"
_HARNESS = "envhub_sandboxes"


def run(program: bytes, *, is_compiled: bool) -> NoReturn:
    """Run source text, or marshalled code, as the main module; never returns."""
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = [FILE]
    _forget_harness()
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    code = 0
    try:
        exec(_code(program, is_compiled), vars(module))
    except SystemExit as leaving:
        code = _exit_code(leaving.code)
    except BaseException as error:
        code = 1
        beyond_this_frame = error.__traceback__.tb_next if error.__traceback__ else None
        traceback.print_exception(type(error), error, beyond_this_frame)
    try:
        cast(Any, threading)._shutdown()
        cast(Any, atexit)._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        code = code or 1
    os._exit(code)


def _code(program: bytes, is_compiled: bool) -> CodeType:
    if is_compiled:
        return marshal.loads(program)
    source = program.decode("utf-8", "surrogatepass")
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    return compile(source, FILE, "exec", dont_inherit=True)


def _forget_harness() -> None:
    """Leave the standard library alone on the import path."""
    sys.path[:] = [entry for entry in sys.path if entry.startswith(sys.base_prefix)]
    for name in [name for name in sys.modules if name.split(".")[0] == _HARNESS]:
        del sys.modules[name]


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1
