"""Writes the JSON Schema of `--format json`.

Regenerate it: `python -m rollouthub.views.report.report_schema docs/schemas/report.schema.json`.
"""

import json
import sys
from pathlib import Path

from rollouthub.views.report.report_facts import Report


def schema_text() -> str:
    """The JSON Schema as text, as it is stored in `docs/schemas`."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(schema | Report.model_json_schema(mode="serialization"), indent=2) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(schema_text())
