"""The one style sheet of the pages: that of reports, that of conversations, and what pages add."""

from importlib.resources import files

from rollouthub.views.report.style import STYLE as REPORT_STYLE
from rollouthub.views.web.page_frame import STYLE_FILE
from rollouthub.views.web.rollout_content import STYLE as CONTENT_STYLE

STYLE = "\n".join(
    (
        REPORT_STYLE,
        (files("rollouthub.views.web") / "static" / STYLE_FILE).read_text(encoding="utf-8"),
        CONTENT_STYLE,
    )
)
