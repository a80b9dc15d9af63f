"""The verifier: reads one JSON object from stdin and writes one JSON score to stdout."""

import json
import sys
from pathlib import Path

asked = json.load(sys.stdin)
file = Path(asked["workdir"], "list.json")
found: dict[str, int] = json.loads(file.read_text()) if file.is_file() else {}
wanted = asked["task"]["answer"]
score = {"reward": float(found == wanted), "passed": found == wanted, "feedback": f"wanted {wanted}, found {found}"}
sys.stdout.write(json.dumps(score))
