"""The overview of a run: its figures, their course over time, and the distributions of rewards, outcomes and times."""
