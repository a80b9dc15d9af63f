"""Finding the program in what a model answered."""

from typing import Any

import pytest

from rollouthub_servers.code.answer import find_program

PROMPT = 'from math import pi\n\n\ndef area(r):\n    """Of a circle."""\n'
WHOLE = "def area(r):\n    return pi * r ** 2\n"


def value(answer: str, prompt: str = PROMPT) -> object:
    namespace: dict[str, Any] = {}
    exec(find_program(prompt, answer, "area"), namespace)
    return round(namespace["area"](1), 2)


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE,
        f"```python\n{WHOLE}```",
        f"```\n{WHOLE}\n```\n",
        f"~~~py\n{WHOLE}~~~",
        f"  ```python\n{WHOLE}  ```",
        f"```python\n{WHOLE}",
        f"Idea:\n```python\nprint(1)\n```\nThe function:\n```python\n{WHOLE}```\nTry it:\n```python\narea(2)\n```",
        f"```python\ndef area(r):\n    return 0\n```\nNo, rather\n```python\n{WHOLE}```",
        f"<think>```python\ndef area(r):\n    return 0\n```</think>{WHOLE}",
        f"Sure! Here it is:\n\n{WHOLE}\nIt squares the radius.",
        f"```python\n{PROMPT}    return pi * r ** 2\n```",
        "    return pi * r ** 2",
        "return pi * r ** 2",
        "```python\nreturn pi * r ** 2\n```",
        "  return pi * r ** 2",
        "square = r ** 2\n    return pi * square",
        "if r < 0:\n    return 0\nreturn pi * r ** 2",
        "    return square(r) * pi\n\n\ndef square(r):\n    return r ** 2\n",
        "area = lambda r: pi * r ** 2",
        "class area:\n    def __new__(cls, r):\n        return pi * r ** 2\n",
        f"from __future__ import annotations\nfrom math import pi\n{WHOLE}",
        "```python\nimport numbers\n```\n```python\ndef area(r):\n    return pi * r ** 2\n```",
        "```python\nsquare = lambda r: r ** 2\n```\n```python\ndef area(r):\n    return pi * 1\n```",
    ],
)
def test_the_function_is_found(answer: str) -> None:
    assert value(answer) == 3.14


def test_what_the_prompt_has_above_the_function_is_there() -> None:
    prompt = "def square(r):\n    return r ** 2\n\ndef area(r):\n    '''Uses square.'''\n"
    assert value("def area(r):\n    return 3 * square(r)", prompt) == 3


@pytest.mark.parametrize(
    "answer", ["", "I do not know.", "def other(r): return 1", "```python\n```", "def area(r:\n  return"]
)
def test_what_is_no_answer_defines_no_function(answer: str) -> None:
    with pytest.raises((SyntaxError, KeyError, AssertionError, TypeError)):
        value(answer)


def test_endless_nesting_is_no_program() -> None:
    program = find_program(PROMPT, "(" * 100_000, "area")
    with pytest.raises((SyntaxError, MemoryError, RecursionError)):
        compile(program, "x", "exec")
