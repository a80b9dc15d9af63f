"""The tests inside of tasks are for containers, not for this run."""

collect_ignore = ["harbor_tasks", "stand_ins"]
