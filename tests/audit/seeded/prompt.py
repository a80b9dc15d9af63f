"""Tests that want a file of which the prompt says nothing."""

from collections.abc import Iterator

from tests.audit.answers import number
from tests.audit.made_tasks import MadeTask

_PATHS = (
    "/app/out/report.json", "/app/result.csv", "/srv/data/summary.txt", "/app/model/weights.npy", "/data/clean.parquet",
    "/app/plot.png", "/workspace/build/main.o", "/app/answer.yaml", "/home/agent/notes.md", "/app/index.html",
    "/opt/site/config.ini", "/app/server.log", "/var/www/page.html", "/app/lib/parse.py", "/app/bin/run.sh",
    "/workspace/solution.c", "/app/dump.sql", "/srv/keys/public.pem", "/app/counts.tsv", "/app/final/output.xml",
)  # fmt: skip
_TESTS = (
    "import pathlib\n\n\ndef test_it():\n    assert pathlib.Path('{path}').read_text() == '{value}\\n'\n",
    "[ \"$(cat {path})\" = '{value}' ] && echo 1 > /logs/verifier/reward.txt\n",
    "import os\n\n\ndef test_it():\n    assert os.path.getsize('{path}') > {size}\n",
    "const fs = require('fs');\ntest('it', () => expect(fs.readFileSync('{path}', 'utf8')).toContain('{value}'));\n",
)
_PROMPTS = (
    "Work out the totals of the year and keep them.",
    "Build the project so that it can be delivered.",
    "Clean the table: no row may come twice.",
    "Write down what you found out.",
    "Make the service ready.",
)


def _made() -> Iterator[MadeTask]:
    for index, path in enumerate(_PATHS):
        name = f"unmentioned-{index}"
        value = number(name)
        test = _TESTS[index % 4].format(path=path, value=value, size=len(value))
        kinds = (
            f"echo {value} > {path}\n",
            f"printf '{value}\\n' | tee {path}\n",
            f"install -D /dev/stdin {path} <<< {value}\n",
        )
        files = {"tests/test_it": test, "solution/solve.sh": f"#!/bin/bash\n{kinds[index % 3]}"}
        yield MadeTask(
            name, _PROMPTS[index % 5], value, lambda said, _, v=value: said.strip() == v, "prompt", files=files
        )


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    return [*_made()]
