"""Figures of a run: means over scored rollouts, pass@k and avg@k, with confidence intervals.

Imports the flat modules. Begin with `means.py`.
"""

from rollouthub.statistics.intervals import Estimate, wilson_interval
from rollouthub.statistics.means import RunningMeans
from rollouthub.statistics.pass_at_k import (
    AtK,
    GroupCounts,
    GroupSummary,
    SummaryTable,
    avg_at_k,
    pass_at_k,
    summarise_groups,
)

__all__ = [
    "AtK",
    "Estimate",
    "GroupCounts",
    "GroupSummary",
    "RunningMeans",
    "SummaryTable",
    "avg_at_k",
    "pass_at_k",
    "summarise_groups",
    "wilson_interval",
]
