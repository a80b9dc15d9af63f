"""Finds the program in a model's answer. Runs inside the sandbox: standard library only, Python 3.9 or later."""

import ast
import re
from collections.abc import Iterator
from textwrap import dedent, indent

MAX_TRIMMED_LINES = 200
"""Most lines after a program that may be dropped as prose."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_START = re.compile(r"^(?:def|async def|class|import|from|@)\b|^@", re.MULTILINE)


def find_program(prompt: str, answer: str, entry_point: str) -> str:
    """The program that an answer stands for, including the prompt's code above the function.

    The last fenced block that defines the function is taken, else all fenced blocks together, else, without fences, the
    answer itself or the code in it between prose. Code that does not define the function is taken as its body. An
    answer
    that is none of these is returned unchanged, and will fail.
    """
    text = answer.rpartition("</think>")[2]
    blocks = [match[2] for match in _FENCE.finditer(text)]
    texts = [*reversed(blocks), "\n".join(blocks)] if blocks else [text]
    for whole in texts if blocks else [text, *_without_prose(text)]:
        if _defines(whole, entry_point):
            return whole if "from __future__" in whole else prompt[: _place(prompt, entry_point)] + whole
    for body in filter(str.strip, texts):
        for program in _completions(prompt, body):
            if _defines(program, entry_point):
                return program
    return prompt[: _place(prompt, entry_point)] + texts[0]


def _place(prompt: str, entry_point: str) -> int:
    """Where the function's definition begins; the prompt's code above it is part of every answer."""
    found = [*re.finditer(rf"^(?:async\s+)?def\s+{re.escape(entry_point)}\b", prompt, re.MULTILINE)]
    return found[-1].start() if found else len(prompt)


def _without_prose(text: str) -> Iterator[str]:
    """Candidates that begin at the first line that looks like code, with more and more of the last lines dropped."""
    start = _START.search(text)
    if start is None:
        return
    lines = text[start.start() :].splitlines(keepends=True)
    for end in range(len(lines), max(0, len(lines) - MAX_TRIMMED_LINES), -1):
        yield "".join(lines[:end])


def _completions(prompt: str, body: str) -> Iterator[str]:
    """The prompt with the body appended unchanged, indented as a whole, and with only its first line indented."""
    opening = prompt if prompt.endswith("\n") else prompt + "\n"
    yield opening + body
    yield opening + indent(dedent(body), "    ")
    yield opening + "    " + body.lstrip()


def _defines(program: str, name: str) -> bool:
    if program.isascii() and name not in program:
        return False  # without parsing it: an answer may be thousands of blocks
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
