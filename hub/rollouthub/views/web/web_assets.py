"""The one style sheet and the one script of the pages, and the policy of pages that are files."""

import base64
import hashlib
from importlib.resources import files

from rollouthub.views.report.style import STYLE as REPORT_STYLE
from rollouthub.views.web.rollout_content import STYLE as CONTENT_STYLE

STYLE_FILE, SCRIPT_FILE = "view.css", "view.js"
_FOLDER = files("rollouthub.views.web") / "static"
STYLE = "\n".join((REPORT_STYLE, (_FOLDER / STYLE_FILE).read_text(encoding="utf-8"), CONTENT_STYLE))
SCRIPT = (_FOLDER / SCRIPT_FILE).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


STATIC_POLICY = (
    f"default-src 'none'; script-src {_digest(SCRIPT)}; style-src {_digest(STYLE)}; img-src data:; media-src data:; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The content security policy of a page that is one file: its own script and style, and no request."""
