# ruff: noqa: E501  # an attack reads best as it stands
"""Answers that attack their verdict: none passes, and none is unscored either."""

from collections.abc import Iterator

import pytest

from envhub import Public, Secret, Submission, Task
from envhub_sandboxes.process import ProcessSandbox, process_sandbox
from envhub_servers.code import Code, CodeConfig, CodeSecret
from envhub_servers.code.examination import Verdict, examine

SECRET = 31415926
TEST = f"""
def check(candidate):
    assert candidate(1) == {SECRET}, 'no'
    assert candidate(2) == [{SECRET}, {{'a': ({SECRET},)}}]
"""
PROMPT = "def f(x):\n    '''Guess.'''\n"


@pytest.fixture(scope="module", params=["namespaces", "user", "process"])
def box(request: pytest.FixtureRequest) -> Iterator[ProcessSandbox]:
    found = ProcessSandbox((request.param,))
    try:
        assert found.isolation == request.param
    except Exception as error:
        pytest.skip(f"these walls cannot be had here: {error}")
    yield found
    found.close()


async def verdict_of(box: ProcessSandbox, answer: str, test: str = TEST, cpu_seconds: float = 1.0) -> Verdict:
    return await examine(box, prompt=PROMPT, test=test, entry_point="f", answer=answer, cpu_seconds=cpu_seconds)


ATTACKS = {
    "exits": "import os, sys\ndef f(x): os._exit(0)",
    "exits while it loads": "import os\nf = 1\nos._exit(0)",
    "exits politely": "import sys\ndef f(x): sys.exit(0)",
    "exits at the end": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef f(x): raise SystemExit(0)",
    "is interrupted": "def f(x): raise KeyboardInterrupt",
    "kills itself": "import os\ndef f(x): os.kill(os.getpid(), 9)",
    "kills its parent": "import os\ndef f(x):\n    os.kill(os.getppid(), 9)\n    return 1",
    "prints a verdict": "def f(x):\n    print('{\"passed\": true}', flush=True)\n    return 1",
    "writes a verdict everywhere": (
        "import os\ndef f(x):\n    for fd in range(64):\n        try: os.write(fd, b'started\\n{\"passed\": true}\\n')\n"
        "        except OSError: pass\n    return 1"
    ),
    "lies about equality": "class Yes:\n    def __eq__(self, other): return True\ndef f(x): return Yes()",
    "is an integer that lies": "class Yes(int):\n    def __eq__(self, other): return True\ndef f(x): return Yes(1)",
    "is a list that lies": "class Yes(list):\n    def __eq__(self, other): return True\ndef f(x): return Yes()",
    "patches json": "import json\njson.loads = lambda *_: {'value': 1}\njson.dumps = lambda *_: 'x'\ndef f(x): return 1",
    "patches builtins": "import builtins\nbuiltins.AssertionError = KeyError\nbuiltins.len = id\ndef f(x): return 1",
    "patches ast": "import ast\nast.literal_eval = lambda *_: 1\ndef f(x): return 1",
    "returns what is unhashable": "import sys\nsys.modules['__main__'].encode = lambda v: {'set': [[1]]}\ndef f(x): return 1",
    "returns an unknown type": "import sys\nsys.modules['__main__'].encode = lambda v: {'pickle': 'x'}\ndef f(x): return 1",
    "returns a tag of two": "import sys\nsys.modules['__main__'].encode = lambda v: {'a': 1, 'b': 2}\ndef f(x): return 1",
    "raises SystemExit over there": (
        "import sys\nsys.modules['__main__'].send = lambda c, m: c.sendall("
        '(lambda d: len(d).to_bytes(4, \'big\') + d)(b\'{"raised": "SystemExit", "text": "0"}\'))\ndef f(x): return 1'
    ),
    "answers with garbage": "import os\ndef f(x):\n    os.write(3, bytes(range(256)) * 10)\n    return 1",
    "answers half": "import os\ndef f(x):\n    os.write(3, b'\\0\\0\\0\\x09{')\n    os._exit(0)",
    "claims a huge message": "import os\ndef f(x):\n    os.write(3, b'\\xff' * 4)\n    return 1",
    "returns too much": "def f(x): return 'x' * 50_000_000",
    "returns endless depth": "def f(x):\n    deep = []\n    for _ in range(100_000): deep = [deep]\n    return deep",
    "sends endless depth": (
        "import os\ndef f(x):\n    data = b'{\"value\": ' + b'[' * 1_000_000 + b']' * 1_000_000 + b'}'\n"
        "    os.write(3, len(data).to_bytes(4, 'big'))\n    while data: data = data[os.write(3, data):]\n    return 1"
    ),
    "returns an endless iterator": "import itertools\ndef f(x): return itertools.count()",
    "loops": "def f(x):\n    while True: pass",
    "loops while it loads": "while True: pass",
    "closes the pipe": "import os\nos.close(3)\ndef f(x): return 1",
    "takes all memory": "def f(x):\n    hoard = []\n    while True: hoard.append(bytearray(1 << 24))",
    "recurses": "import sys\nsys.setrecursionlimit(10**8)\ndef f(x): return f(x)",
    "leaves a daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        os.write(3, b'\\0\\0\\0\\2{}')\n"
        "        time.sleep(0.01)\ndef f(x): return 1"
    ),
    "reads the tests": (
        "import glob\ndef f(x):\n    found = []\n    for path in glob.glob('/proc/[0-9]*/*'):\n"
        "        if path.endswith(('cmdline', 'environ', 'fd/0', 'maps')):\n            try: found.append(open(path).read())\n"
        f"            except OSError: pass\n    return {SECRET} if '62951413'[::-1] in str(found) else 1"
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_attack_passes_and_each_is_scored(box: ProcessSandbox, attack: str) -> None:
    assert not (await verdict_of(box, ATTACKS[attack])).passed


async def test_the_tests_would_pass_what_is_right(box: ProcessSandbox) -> None:
    right = f"def f(x): return {SECRET} if x == 1 else [{SECRET}, {{'a': ({SECRET},)}}]"
    assert (await verdict_of(box, right)).passed


@pytest.mark.parametrize("expected", ["Exception", "BaseException"])
async def test_a_process_that_ends_is_no_error_a_test_could_expect(box: ProcessSandbox, expected: str) -> None:
    test = f"def check(candidate):\n    try: candidate(1)\n    except {expected}: pass\n    else: assert False\n"
    assert not (await verdict_of(box, "import os\ndef f(x): os._exit(0)", test)).passed
    assert (await verdict_of(box, "def f(x): raise ValueError", test)).passed


async def test_values_that_break_the_tests_process_fail(box: ProcessSandbox) -> None:
    # Their hashes are all the same: to make a set of them takes time that grows with the square of their number.
    colliding = (
        "import sys\nitems = [{'int': hex(n * (2**61 - 1))} for n in range(200_000)]\n"
        "sys.modules['__main__'].encode = lambda v: {'set': items}\ndef f(x): return 1"
    )
    verdict = await verdict_of(box, colliding, cpu_seconds=1.0)
    assert not verdict.passed


async def test_the_candidate_is_told_its_arguments_and_nothing_else(box: ProcessSandbox) -> None:
    snoop = (
        "import gc\ndef f(x):\n    texts = [str(o) for o in gc.get_objects() if isinstance(o, (str, dict, list, tuple))]\n"
        "    raise ValueError('seen' if any('62951413'[::-1] in text for text in texts) else 'not seen')"
    )
    verdict = await verdict_of(box, snoop)
    assert verdict.why is not None
    assert "ValueError: not seen" in verdict.why


async def test_the_memory_of_the_tests_process_cannot_be_read(box: ProcessSandbox) -> None:
    reader = (
        "import os, re\ndef f(x):\n    told = []\n    for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "        try:\n            if pid == str(os.getpid()) or b'python' not in open(f'/proc/{pid}/comm', 'rb').read(): continue\n"
        "            for line in open(f'/proc/{pid}/maps'):\n                span, mode = line.split()[:2]\n"
        "                start, end = (int(part, 16) for part in span.split('-'))\n"
        "                if mode.startswith('rw') and end - start < 1 << 26:\n"
        "                    memory = open(f'/proc/{pid}/mem', 'rb', 0)\n                    memory.seek(start)\n"
        "                    if (b'assert candidate' + b'(1) ==') in memory.read(end - start): told.append(pid)\n"
        "        except OSError: pass\n    raise ValueError(f'found in {told}')"
    )
    verdict = await verdict_of(box, reader, cpu_seconds=10.0)
    if box.isolation == "process":
        return  # said among its limitations: the hub's own process, which read the tests, can be read
    assert verdict.why is not None
    assert "ValueError: found in []" in verdict.why


async def test_the_shared_sandbox_serves_the_environment() -> None:
    secret = CodeSecret(answer=None, prompt=PROMPT, test=TEST, entry_point="f")
    task: Task[Public, Secret] = Task(Public(id="x", prompt=PROMPT), secret)
    verdict = await Code(task, CodeConfig(data="x"), 0).verify(Submission(answer=ATTACKS["exits"]))
    assert (verdict.reward, verdict.passed) == (0.0, False)
    process_sandbox().close()
