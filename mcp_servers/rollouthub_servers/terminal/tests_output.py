"""The output of tests as scores show it: its end, without what differs from one run of the same tests to the next."""

import re

SHOWN = 4_000
"""Most characters of the tests' output that are kept."""
_SUMMARY = re.compile(
    r"^(?:=+ )?((?:\d+ \w|Ran \d|no tests|tests finished).*?),? in \d+(?:\.\d+)? ?s(?:econds?)?\b"
    r"(?: \(\d+:\d\d:\d\d\))?(?: =+)?$",
    re.MULTILINE,
)
"""The last line of pytest, unittest and SymPy; pytest fills it up to the terminal's width."""


def shown(output: str, folder: str = "") -> str:
    """The end of the output, without how long the tests took and without the name of a temporary folder."""
    output = output[-2 * SHOWN :]
    if folder:
        output = output.replace(folder, "/tmp/…")
    return _SUMMARY.sub(r"\1", output)[-SHOWN:]
