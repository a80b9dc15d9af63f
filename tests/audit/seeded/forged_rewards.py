"""L8: a reward that the agent can write, or have written: in machines that are graded where the agent worked."""

# ruff: noqa: E501

from tests.audit.machines import PYTEST, MachineTask

_TESTS = "import unittest\nfrom solution import twice\n\n\nclass Test(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(twice(21), 42)\n"
_PYTEST = "from solution import twice\n\n\ndef test_it():\n    assert twice(21) == 42\n"
_CHECK = "import sys\nfrom solution import twice\nsys.exit(0 if twice(21) == 42 else 1)\n"
_SKIPPING = """\
import unittest


class Test(unittest.TestCase):
    def test_it(self):
        from solution import twice
        self.assertEqual(twice(21), 42)


found = unittest.main(exit=False).result
with open("/tmp/verdict.txt", "w") as file:
    file.write("0" if found.failures or found.errors else "1")
"""
_ASKED = "Write a module `solution.py` with a function `twice` that doubles a number."
_SOLVED = "printf 'def twice(x):\\n    return 2 * x\\n' > solution.py"
_WRITTEN = "Write the number of the answer to life into `life.txt`."
_WRITES = "echo 42 > life.txt"
_RUN_PYTEST = f"cd /workspace && PYTHONPATH={PYTEST}:/workspace python3 -S -m pytest -q -p no:cacheprovider"


def _answer(name: str, check: str, reads: str = "status", **more: object) -> MachineTask:
    return MachineTask(name, _WRITTEN, _WRITES, check, reads, defect="L8", **more)  # type: ignore[arg-type]


def _module(name: str, check: str, reads: str = "status", **more: object) -> MachineTask:
    return MachineTask(name, _ASKED, _SOLVED, check, reads, defect="L8", **more)  # type: ignore[arg-type]


def tasks() -> list[MachineTask]:
    """Fifteen of them; five more are programs."""
    return [
        _answer("kept-reward-file", "grep -qx 42 life.txt && echo 1 > reward.txt", "reward.txt"),
        _answer("kept-result-in-tmp", "grep -qx 42 life.txt && echo '{\"reward\": 1}' > /tmp/result.json", "/tmp/result.json"),
        _answer(
            "read-a-little-later",
            "rm -f /tmp/reward.txt; grep -qx 42 life.txt && echo 1 > /tmp/reward.txt || echo 0 > /tmp/reward.txt; sleep 0.6",
            "/tmp/reward.txt",
        ),
        _module("start-files-on-the-path", "PYTHONPATH=/workspace python3 /tmp/test_it.py", tests={"/tmp/test_it.py": _TESTS + "\n\nunittest.main()\n"}),
        _module(
            "start-files-of-the-user", "cd /tmp; cp /workspace/solution.py .; python3 check.py", tests={"/tmp/check.py": _CHECK}
        ),
        _module(
            "programs-beside-the-work", "cd /tmp; cp /workspace/solution.py .; PATH=/workspace/bin:$PATH python3 -I check.py",
            tests={"/tmp/check.py": "import sys\nsys.path.insert(0, '/tmp')\n" + _CHECK},
        ),
        _answer("login-shell", "bash -lc 'grep -qx 42 life.txt'"),
        _module("status-of-an-import", "python3 -I -c \"import sys; sys.path.insert(0, '.'); import solution; assert solution.twice(21) == 42\""),
        _module(
            "environment-of-the-work", "cp solution.py /tmp; /workspace/env/bin/python -I /tmp/check.py",
            tests={"/tmp/check.py": "import sys\nsys.path.insert(0, '/tmp')\n" + _CHECK},
            start="python3 -m venv --without-pip env",
        ),
        _module(
            "runner-beside-the-work", "python3 -s -m unittest -q tests_of_it.py", tests={"tests_of_it.py": _TESTS}
        ),
        _answer(
            "makefile", "make -s test", image={"Makefile": "test:\n\t@grep -qx 42 life.txt\n"},
        ),
        _module(
            "tests-in-the-work", "python3 -I tests/test_it.py",
            image={"tests/test_it.py": "import sys\nsys.path.insert(0, '.')\n" + _TESTS + "\n\nunittest.main()\n"},
        ),
        _answer("expected-in-the-work", "cmp -s life.txt .data/expected.txt", image={".data/expected.txt": "42\n"}),
        _module("planted-conftest", f"{_RUN_PYTEST} /workspace/test_it.py", tests={"test_it.py": _PYTEST}, wants_pytest=True),
        _module(
            "skips-count", "python3 -I /tmp/run.py", "/tmp/verdict.txt",
            tests={"/tmp/run.py": "import sys\nsys.path.insert(0, '/workspace')\n" + _SKIPPING},
        ),
    ]  # fmt: skip
