import json
import subprocess
import sys

# The module runs in a process of its own: what it does to its interpreter is nothing to this test.
REPORT = """
import json, sys
sys.path.insert(0, "/app")
from report import report
print(json.dumps(report([["a", "b"], [1, 2]])))
"""


def test_a_table_is_made():
    done = subprocess.run([sys.executable, "-c", REPORT], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == "|   a |   b |\n|-----|-----|\n|   1 |   2 |"
