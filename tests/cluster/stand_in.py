"""A server with the command line of `vllm serve`, and a mock behind it: `stand_in.py serve MODEL --port N …`.

`--mock` names the mock; `--die` writes its words to stderr and ends; `--die-after N` does so after N health checks.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from envhub.cli.main import main

parser = argparse.ArgumentParser()
parser.add_argument("serve")
parser.add_argument("source")
parser.add_argument("--served-model-name", required=True)
parser.add_argument("--host", required=True)
parser.add_argument("--port", required=True)
parser.add_argument("--mock", default="mock/solver")
parser.add_argument("--die", default="")
parser.add_argument("--describe", default="")
given, rest = parser.parse_known_args()
if given.die:
    sys.stderr.write(given.die + "\n")
    sys.exit(3)
if given.describe:
    told = {"arguments": sys.argv, "environment": dict(os.environ)}
    Path(f"{given.describe}-{os.getpid()}").write_text(json.dumps(told))
sys.argv = ["hub", "mock-server", given.mock, "--host", given.host, "--port", given.port]
main()
