"""Mark, word and colour for how a task differs between two runs."""

from collections.abc import Mapping

from rollouthub.analysis.compare.task_pairs import Verdict

VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    "worse": ("▼ worse", "red"),
    "better": ("▲ better", "green"),
    "lower": ("▽ lower", ""),
    "higher": ("△ higher", ""),
    "same": ("= same", ""),
    "unscored": ("? not scored", "yellow"),
}
"""The mark, word and colour for each verdict."""
