"""Judges by name: the plug-ins that an `env.toml` chooses as its verifier, and their settings."""

from rollouthub.authoring.judges.named_judge import NamedJudge, find_judge

__all__ = ["NamedJudge", "find_judge"]
