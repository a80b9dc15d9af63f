"""Finding the program in what a model answered. Runs inside the sandbox: the standard library alone, Python 3.9 on."""

import ast
import re
from collections.abc import Iterator
from textwrap import dedent, indent

MAX_TRIMMED_LINES = 200
"""Most lines after a program that are taken for prose and tried without."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_START = re.compile(r"^(?:def|async def|class|import|from|@)\b|^@", re.MULTILINE)


def find_program(prompt: str, answer: str, entry_point: str) -> str:
    """The program an answer stands for, with what the prompt has above the function.

    The last fenced block that defines the function counts, else the fenced blocks together, else, without fences, the
    answer itself, or the code in it between prose. What defines no such function is taken for its body. What is
    neither is returned as it is, and will fail.
    """
    text = answer.rpartition("</think>")[2]
    blocks = [match[2] for match in _FENCE.finditer(text)]
    texts = [*reversed(blocks), "\n".join(blocks)] if blocks else [text]
    for whole in texts if blocks else [text, *_without_prose(text)]:
        if _defines(whole, entry_point):
            return whole if "from __future__" in whole else prompt[: _place(prompt, entry_point)] + whole
    for body in texts:
        for program in _completions(prompt, body):
            if body.strip() and _defines(program, entry_point):
                return program
    return prompt[: _place(prompt, entry_point)] + texts[0]


def _place(prompt: str, entry_point: str) -> int:
    """Where the function itself begins; what is above it (imports, other functions) is part of every answer."""
    found = [*re.finditer(rf"^(?:async\s+)?def\s+{re.escape(entry_point)}\b", prompt, re.MULTILINE)]
    return found[-1].start() if found else len(prompt)


def _without_prose(text: str) -> Iterator[str]:
    """From the first line that looks like code, with fewer and fewer of the last lines."""
    start = _START.search(text)
    if start is None:
        return
    lines = text[start.start() :].splitlines(keepends=True)
    for end in range(len(lines), max(0, len(lines) - MAX_TRIMMED_LINES), -1):
        yield "".join(lines[:end])


def _completions(prompt: str, body: str) -> Iterator[str]:
    """The prompt with this body: as it stands, indented as a whole, or with its lost first indentation."""
    opening = prompt if prompt.endswith("\n") else prompt + "\n"
    yield opening + body
    yield opening + indent(dedent(body), "    ")
    yield opening + "    " + body.lstrip()


def _defines(program: str, name: str) -> bool:
    try:
        tree = ast.parse(program)
        compile(tree, "answer.py", "exec", dont_inherit=True)  # also refuses what parses, as a `return` outside
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(name in _names(statement) for statement in tree.body)


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name for alias in statement.names]
    return []
