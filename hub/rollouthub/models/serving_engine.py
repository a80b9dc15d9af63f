"""The programs that `hub serve model` starts."""

from typing import Literal

Engine = Literal["vllm", "sglang"]
"""The program that serves a model."""
