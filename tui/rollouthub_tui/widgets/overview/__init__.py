"""A run at a glance: its figures, how they went over time, how rewards, endings and times are distributed."""
