# ruff: noqa: E501  # an attack reads best as it stands
"""Answers that attack their verdict: none passes, and none is unscored either."""

import re
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import pytest

from rollouthub import (
    Public,
    Sandbox,
    SandboxError,
    SandboxProvider,
    SandboxSpec,
    Secret,
    Submission,
    Task,
    VerifierError,
)
from rollouthub.errors import ConfigError, SandboxOverrun
from rollouthub.hosting.local.episode_sandboxes import open_sandboxes
from rollouthub.sandbox import Program
from rollouthub_servers.code import Code, CodeConfig, CodeSecret
from rollouthub_servers.code.code_verdict import CodeVerdict, examine
from rollouthub_servers.code.programs import SPEC

SECRET = 31415926
TEST = f"""
def check(candidate):
    assert candidate(1) == {SECRET}, 'no'
    assert candidate(2) == [{SECRET}, {{'a': ({SECRET},)}}]
"""
RIGHT = f"def f(x): return {SECRET} if x == 1 else [{SECRET}, {{'a': ({SECRET},)}}]"
PROMPT = "def f(x):\n    '''Guess.'''\n"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """For the whole module, as the sandboxes are."""
    return "asyncio"


@pytest.fixture(scope="module", params=["process", pytest.param("docker", marks=pytest.mark.soak)])
async def box(anyio_backend: str, request: pytest.FixtureRequest) -> AsyncGenerator[SandboxProvider]:
    async with AsyncExitStack() as stack:
        try:
            provider = await stack.enter_async_context(open_sandboxes(Code, CodeConfig(sandbox=request.param)))
        except ConfigError as error:
            pytest.skip(f"there are no sandboxes of {request.param} here: {error}")
        assert provider is not None
        yield provider


async def verdict_of(box: SandboxProvider, answer: str, test: str = TEST, cpu_seconds: float = 1.0) -> CodeVerdict:
    return await examine(box.open, prompt=PROMPT, test=test, entry_point="f", answer=answer, cpu_seconds=cpu_seconds)


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
        "import sys\nsys.modules['__main__'].pack = lambda m: "
        '(lambda d: len(d).to_bytes(4, \'big\') + d)(b\'{"raised": "SystemExit", "text": "0"}\')\ndef f(x): return 1'
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
    "answers without end": "import os\ndef f(x):\n    while True: os.write(3, bytes(1 << 16))",
    "answers before it is asked": (
        "import json, os\nfor value in range(4):\n    data = json.dumps({'value': value}).encode()\n"
        "    os.write(3, len(data).to_bytes(4, 'big') + data)\ndef f(x): return 1"
    ),
    "speaks as the tests do": (
        "import os\ndef f(x):\n    data = b'{\"passed\": true}'\n"
        "    os.write(3, b's' + len(data).to_bytes(4, 'big') + data)\n    return 1"
    ),
    "takes the calls itself": "import os\ndef f(x):\n    while os.read(4, 1 << 16): pass\n    return 1",
    "floods its last words": "import os\ndef f(x):\n    while True: os.write(5, bytes(1 << 16))",
    "sends itself to sleep": "import os\ndef f(x): os.kill(os.getpid(), 19)",
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


ASLEEP = {"answers with garbage", "takes the calls itself", "sends itself to sleep"}
"""They use no CPU, and are ended when their time is over: some times as long as that of their CPU."""


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_attack_passes_and_each_is_scored(box: SandboxProvider, attack: str) -> None:
    verdict = await verdict_of(box, ATTACKS[attack], cpu_seconds=0.3 if attack in ASLEEP else 1.0)
    assert not verdict.passed


async def test_the_tests_would_pass_what_is_right(box: SandboxProvider) -> None:
    assert (await verdict_of(box, RIGHT)).passed


@pytest.mark.parametrize("expected", ["Exception", "BaseException"])
async def test_a_process_that_ends_is_no_error_a_test_could_expect(box: SandboxProvider, expected: str) -> None:
    test = f"def check(candidate):\n    try: candidate(1)\n    except {expected}: pass\n    else: assert False\n"
    assert not (await verdict_of(box, "import os\ndef f(x): os._exit(0)", test)).passed
    assert (await verdict_of(box, "def f(x): raise ValueError", test)).passed


async def test_values_that_break_the_tests_process_fail(box: SandboxProvider) -> None:
    # Their hashes are all the same: to make a set of them takes time that grows with the square of their number.
    colliding = (
        "import sys\nitems = [{'int': hex(n * (2**61 - 1))} for n in range(200_000)]\n"
        "sys.modules['__main__'].encode = lambda v: {'set': items}\ndef f(x): return 1"
    )
    verdict = await verdict_of(box, colliding, cpu_seconds=1.0)
    assert not verdict.passed


async def test_the_candidate_is_told_its_arguments_and_nothing_else(box: SandboxProvider) -> None:
    snoop = (
        "import gc\ndef f(x):\n    texts = [str(o) for o in gc.get_objects() if isinstance(o, (str, dict, list, tuple))]\n"
        "    raise ValueError('seen' if any('62951413'[::-1] in text for text in texts) else 'not seen')"
    )
    verdict = await verdict_of(box, snoop)
    assert verdict.why is not None
    assert "ValueError: not seen" in verdict.why


async def test_the_memory_of_the_tests_process_cannot_be_read(box: SandboxProvider) -> None:
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
    async with box.open(SPEC) as sandbox:
        if sandbox.ref.walls == "limits":
            return  # said among its limitations: the hub's own process, which read the tests, can be read
    assert verdict.why is not None
    assert "ValueError: found in []" in verdict.why


async def test_what_an_answer_prints_is_no_part_of_its_answer(box: SandboxProvider) -> None:
    chatty = (
        "import os, sys\nprint('loading', file=sys.stderr)\ndef f(x):\n    print('x' * 10_000_000)\n"
        "    sys.stderr.write('y' * 10_000_000)\n    os.write(1, b'{\"value\": 1}')\n    os.system('echo from a child')\n"
        + RIGHT.replace("def f(x):", "   ")
    )
    assert await verdict_of(box, chatty, cpu_seconds=10.0) == CodeVerdict(passed=True)


async def test_an_answer_that_never_answers_has_failed(box: SandboxProvider) -> None:
    verdict = await verdict_of(box, "import time\ndef f(x): time.sleep(3600)", cpu_seconds=0.2)
    assert verdict == CodeVerdict(passed=False, why="it took over 1.2 s")


async def test_why_an_answer_ended_is_said(box: SandboxProvider) -> None:
    for answer, why in {
        "def f(x): raise KeyboardInterrupt('oh')": "exit status 1: .*KeyboardInterrupt: oh",
        "raise ValueError('while it loads')": "exit status 1: .*ValueError: while it loads",
        "import os\ndef f(x): os._exit(7)": "exit status 7",
        "def f(x):\n    while True: pass": "over (1 s of CPU|6 s)",  # the latter where a machine gives it little
    }.items():
        verdict = await verdict_of(box, answer)
        assert re.search(why, str(verdict.why), re.DOTALL), verdict


class Watched:
    """Sandboxes of another provider; counted, and broken where a test wants them to be."""

    def __init__(self, provider: SandboxProvider, breaks: Collection[int] = (), *, of: str = "find_program") -> None:
        self._provider, self._breaks, self._of = provider, breaks, of
        self.overruns: Collection[int] = ()
        """Those of the programs under which the sandbox goes over its bounds, once they have said something."""
        self.ids: list[str] = []
        self.starts = 0

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
        """Open one whose program may break."""
        async with self._provider.open(spec) as sandbox:
            self.ids.append(sandbox.id)
            yield cast(Sandbox, _Breaking(sandbox, self))

    def breaks(self, command: Sequence[str]) -> bool:
        """Whether the sandbox breaks under this program, the next of its kind."""
        if self._of not in command[-1]:
            return False
        self.starts += 1
        return self.starts in self._breaks

    def overruns_now(self, command: Sequence[str]) -> bool:
        """Whether the sandbox goes over its bounds under the program that was just started."""
        return self._of in command[-1] and self.starts in self.overruns


class _Breaking:
    def __init__(self, sandbox: Sandbox, watched: Watched) -> None:
        self._sandbox, self._watched = sandbox, watched

    @asynccontextmanager
    async def start(self, command: Sequence[str], **settings: Any) -> AsyncGenerator[Program]:
        async with self._sandbox.start(command, **settings) as program:
            if self._watched.breaks(command):
                raise SandboxError("the container is gone")
            yield cast(Program, _Overrun(program)) if self._watched.overruns_now(command) else program


class _Overrun:
    """A program that ends its sandbox when it has begun to speak."""

    def __init__(self, program: Program) -> None:
        self.send, self.send_eof, self._program = program.send, program.send_eof, program

    async def output(self) -> AsyncGenerator[tuple[str, bytes]]:
        async for piece in self._program.output():
            yield piece
            raise SandboxOverrun("it used up its memory")


async def examined(watched: Watched, known: str | None = None) -> CodeVerdict:
    return await examine(
        watched.open, prompt=PROMPT, test=TEST, entry_point="f", answer=RIGHT, cpu_seconds=5.0, known=known
    )


async def test_the_answer_and_the_tests_each_have_a_fresh_sandbox(box: SandboxProvider) -> None:
    watched = Watched(box)
    for _ in range(2):
        assert (await examined(watched)).passed
    assert len(set(watched.ids)) == 4


async def test_a_sandbox_that_breaks_by_chance_costs_the_answer_nothing(box: SandboxProvider) -> None:
    assert (await examined(Watched(box, {1}))).passed


async def test_an_answer_whose_sandbox_breaks_whenever_it_runs_has_failed(box: SandboxProvider) -> None:
    verdict = await examined(Watched(box, {1, 2}))
    assert verdict == CodeVerdict(passed=False, why="its sandbox broke, twice in a row: the container is gone")


async def test_a_sandbox_that_breaks_under_the_tests_is_the_verifiers_fault(box: SandboxProvider) -> None:
    with pytest.raises(VerifierError, match="the tests could not be run: the container is gone") as raised:
        await examined(Watched(box, {1}, of="_compiled_prompt"))
    assert raised.value.retryable


async def test_an_answer_whose_values_have_the_tests_go_over_their_bounds_has_failed(box: SandboxProvider) -> None:
    watched = Watched(box, of="_compiled_prompt")
    watched.overruns = {1}
    verdict = await examined(watched, known=RIGHT)
    assert verdict == CodeVerdict(passed=False, why="its values broke the tests' sandbox: it used up its memory")


@pytest.mark.parametrize("known", [RIGHT, None])
async def test_tests_that_go_over_their_bounds_on_a_right_answer_too_are_the_verifiers_fault(
    box: SandboxProvider, known: str | None
) -> None:
    watched = Watched(box, of="_compiled_prompt")
    watched.overruns = {1, 2}
    with pytest.raises(VerifierError, match="it used up its memory") as raised:
        await examined(watched, known)
    assert not raised.value.retryable


async def test_the_environment_scores_an_attack_zero(box: SandboxProvider) -> None:
    secret = CodeSecret(answer=None, prompt=PROMPT, test=TEST, entry_point="f")
    task: Task[Public, Secret] = Task(Public(id="x", prompt=PROMPT), secret)
    world = Code(task, CodeConfig(data="x"), 0)
    world.sandboxes = box
    verdict = await world.verify(Submission(answer=ATTACKS["exits"]))
    assert (verdict.reward, verdict.passed) == (0.0, False)
