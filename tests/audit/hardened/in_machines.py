"""Tasks with a shell and without a defect: only the declared files cross to a fresh machine, where they are judged."""

# ruff: noqa: E501

from tests.audit.machines import MachineTask

_READ_INT = "python3 -I -c \"import re, sys; text = open('{file}').read(); sys.exit(0 if re.fullmatch(r'\\s*{value}\\s*', text) else 1)\""
_FUNCTION = """\
import subprocess, sys
driver = "import os, sys; sys.path.insert(0, '.'); out = os.dup(1); os.dup2(2, 1); import {module}\\n" \\
    "value = {module}.{name}(int(sys.argv[1])); os.write(out, b'%d' % value if type(value) is int else b'x')"
for given, wanted in {cases}:
    done = subprocess.run([sys.executable, '-I', '-c', driver, str(given)], capture_output=True, text=True, cwd='/workspace')
    if done.stdout != str(wanted):
        sys.exit(1)
"""
_LOG = "GET /a 200\nGET /b 404\nGET /c 500\nGET /a 200\nGET /d 404\nGET /b 404\n"
_SALES = "id,item,amount\n1,tea,40\n2,jam,17\n3,tea,25\n4,rye,9\n"


def _number(name: str, prompt: str, solution: str, file: str, value: int, **image: str) -> MachineTask:
    return MachineTask(
        name, prompt, solution, _READ_INT.format(file=file, value=value), image={key.replace("__", "."): text for key, text in image.items()},
        crosses=(file,),
    )  # fmt: skip


def _function(name: str, module: str, body: str, cases: list[tuple[int, int]]) -> MachineTask:
    grade = _FUNCTION.format(module=module, name=name, cases=cases)
    return MachineTask(
        f"write-{name}", f"Write a module `{module}.py` with a function `{name}(x)` of a whole number, as its name says.",
        f"printf '{body}' > {module}.py", "python3 -I /tmp/grade.py", tests={"/tmp/grade.py": grade}, crosses=(f"{module}.py",),
    )  # fmt: skip


def tasks() -> list[MachineTask]:
    """All of them."""
    return [
        _number("errors-of-a-log", "Count the lines with status 404 in /workspace/access.log; write the number to `count.txt`.",
                "grep -c ' 404$' access.log > count.txt", "count.txt", 3, access__log=_LOG),
        _number("sum-of-a-column", "Add up the column `amount` of /workspace/sales.csv; write the sum to `sum.txt`.",
                "awk -F, 'NR>1 {s+=$3} END {print s}' sales.csv > sum.txt", "sum.txt", 91, sales__csv=_SALES),
        _number("largest", "Write the largest amount of /workspace/sales.csv to `largest.txt`.",
                "cut -d, -f3 sales.csv | tail -n +2 | sort -n | tail -1 > largest.txt", "largest.txt", 40, sales__csv=_SALES),
        _number("kinds", "How many different items has /workspace/sales.csv? Write it to `kinds.txt`.",
                "tail -n +2 sales.csv | cut -d, -f2 | sort -u | wc -l > kinds.txt", "kinds.txt", 3, sales__csv=_SALES),
        _function("twice", "twice", "def twice(x):\\n    return 2 * x\\n", [(21, 42), (-3, -6), (0, 0)]),
        _function("cube", "powers", "def cube(x):\\n    return x ** 3\\n", [(3, 27), (-2, -8), (0, 0)]),
        MachineTask(
            "sorted-lines", "Sort the lines of /workspace/words.txt into `sorted.txt`.", "sort words.txt > sorted.txt",
            "[ -s sorted.txt ] && printf 'elm\\nfir\\noak\\n' | cmp -s - sorted.txt", image={"words.txt": "oak\nelm\nfir\n"}, crosses=("sorted.txt",),
        ),
        MachineTask(
            "word-of-a-log", "Which path failed with status 500 in /workspace/access.log?", "grep ' 500$' access.log", "", answer="/c",
            image={"access.log": _LOG},
        ),
        MachineTask(
            "json-of-a-table", "Write the sums by item of /workspace/sales.csv as an object of JSON to `sums.json`.",
            "echo '{\"tea\": 65, \"jam\": 17, \"rye\": 9}' > sums.json",
            "python3 -I -c \"import json, sys; sys.exit(json.load(open('sums.json')) != {'tea': 65, 'jam': 17, 'rye': 9})\"",
            image={"sales.csv": _SALES}, crosses=("sums.json",),
        ),
        MachineTask(
            "repository", "The function `half` in /workspace/half.py doubles its argument. Mend it.",
            "printf 'def half(x):\\n    return x // 2\\n' > half.py", "python3 -I /tmp/grade.py",
            image={"half.py": "def half(x):\n    return x * 2\n"}, crosses=("half.py",),
            tests={"/tmp/grade.py": _FUNCTION.format(module="half", name="half", cases=[(8, 4), (20, 10)])},
            start="export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*; git init -q . && git add half.py"
                  " && git -c user.name=a -c user.email=a@example.com commit -qm first",
        ),
    ]  # fmt: skip
