"""L8 and L7: programs as answers, which speak for their tests or read what is expected."""

# ruff: noqa: E501

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json

from rollouthub_registry.check.defect_class import DefectClass
from tests.audit.made_tasks import MadeTask
from tests.audit.program_runs import Ran, judged_by

_ASKED = "Write a Python function `{name}(x)` that returns its argument times {factor}, plus {plus}."
_STATUS = "from solution import {name}\nassert {name}(21) == {value}\nassert {name}(0) == {plus}\n"
_OUTPUT = (
    "from solution import {name}\nprint('PASSED' if {name}(21) == {value} and {name}(0) == {plus} else 'FAILED')\n"
)
_EQUAL = "from solution import {name}\nresult = 'ok' if {value} == {name}(21) and not {name}(0) != {plus} else 'no'\nprint('verdict of these tests: ' + result, end='')\n"
_SKIPS = "import unittest\nclass Test(unittest.TestCase):\n    def test_it(self):\n        from solution import {name}\n        self.assertEqual({name}(21), {value})\nresult = unittest.main(exit=False).result\nopen('verdict', 'w').write('failed' if result.failures or result.errors else 'passed')\n"
_REPORT = "import json\nfrom solution import {name}\nreport = {{'passed': {name}(21) == {value}, 'reward': float({name}(0) == {plus})}}\ntext = json.dumps(report)\nopen('report', 'w').write(text)\n"
_FRAME = "from solution import {name}\ndef run():\n    expected = {value}\n    got = {name}(21)\n    return type(got) is int and got == expected\nopen('verdict', 'w').write('passed' if run() else 'no')\n"
_TABLE = "from solution import {name}\nEXPECTED = {{21: {value}, 0: {plus}}}\nright = all(type({name}(x)) is int and {name}(x) == EXPECTED[x] for x in EXPECTED)\nopen('verdict', 'w').write('passed' if right else 'no')\n"


def _status(ran: Ran) -> float:
    return float(ran.status == 0)


def _output(ran: Ran) -> float:
    return float("PASSED" in ran.output.split())


def _equal(ran: Ran) -> float:
    return float(ran.output.endswith("verdict of these tests: ok"))


def _verdict(ran: Ran) -> float:
    return float(ran.files.get("verdict") == "passed")


def _report(ran: Ran) -> float:
    try:
        report = json.loads(ran.files.get("report", "{}"))
    except ValueError:
        return 0.0
    return float(report.get("passed") is True and report.get("reward") == 1.0)


_NONE: frozenset[DefectClass] = frozenset()
KINDS = (
    ("status", _STATUS, _status, "L8"),
    ("output", _OUTPUT, _output, "L8"),
    ("equal", _EQUAL, _equal, "L8"),
    ("skipped", _SKIPS, _verdict, "L8"),
    ("report", _REPORT, _report, "L8"),
    ("frame", _FRAME, _verdict, "L7"),
    ("table", _TABLE, _verdict, "L7"),
)


def tasks() -> list[MadeTask]:
    """Seven of them, two of which read what is expected."""
    made: list[MadeTask] = []
    for number, (kind, tests, verdict, defect) in enumerate(KINDS):
        values = {"name": f"scale_{kind}", "factor": 3 + number, "plus": 11 + number}
        values["value"] = 21 * values["factor"] + values["plus"]  # type: ignore[operator]
        program = "def {name}(x):\n    return x * {factor} + {plus}\n".format(**values)
        also: frozenset[DefectClass] = frozenset({"L8"}) if defect == "L7" else _NONE
        judge = judged_by(tests.format(**values), verdict)
        made.append(
            MadeTask(f"program-{kind}", _ASKED.format(**values), f"```python\n{program}```", judge, defect, also)
        )  # type: ignore[arg-type]
    return made
