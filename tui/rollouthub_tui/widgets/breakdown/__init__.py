"""The rollouts of a run by tool, finish reason, stop, tag and fault."""
