"""`ProgramAnswer`: what a task's answer is where it is a Python program."""

import ast
import re
from dataclasses import dataclass

_FENCE = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
_DEFINES = re.compile(r"^(?:async )?(?:def|class) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class ProgramAnswer:
    """How an answer of a task that asks for a program looks."""

    names: tuple[str, ...]
    """What it defines: functions and classes."""
    is_fenced: bool
    """Whether it stands in a block of Markdown."""

    def framed(self, program: str) -> str:
        """A program as an answer."""
        return f"```python\n{program}\n```" if self.is_fenced else program

    def with_functions(self, before: str, body: str) -> str:
        """An answer that defines all that is asked for: some lines, and functions with one body."""
        functions = "".join(f"def {name}(*args, **kwargs):\n    {body}\n" for name in self.names)
        return self.framed(f"{before}{functions}")


def program_answer(answer: str | None, prompt: str) -> ProgramAnswer | None:
    """How a program that answers the task looks, after the reference or else the prompt; None if none is asked for."""
    if answer is None:
        names = _DEFINES.findall("\n".join(_FENCE.findall(prompt)))
        return ProgramAnswer(tuple(dict.fromkeys(names)), is_fenced=True) if names else None
    blocks = _FENCE.findall(answer)
    program = blocks[-1] if blocks else answer
    if not _is_program(program):
        return None
    names = _DEFINES.findall(program)
    return ProgramAnswer(tuple(dict.fromkeys(names)), is_fenced=bool(blocks))


def _is_program(text: str) -> bool:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return any(isinstance(statement, kinds) or _prints(statement) for statement in tree.body)


def _prints(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == "print"
    )
