"""`math`: any data set of problems with answers; `gsm8k`, `aime24` and `deepscaler` are named configurations of it."""

from envhub.preset import Preset
from envhub_servers.math.problems import MathConfig, MathProblems

__all__ = [
    "MathConfig",
    "MathProblems",
    "aime24",
    "deepscaler",
    "deepscaler_8k",
    "deepscaler_16k",
    "deepscaler_24k",
    "gsm8k",
]

_DEEPSCALER = "hf:agentica-org/DeepScaleR-Preview-Dataset"
"""The recipe's training set. A folder of its files has the splits aime, amc, math, minerva and train."""

gsm8k = Preset(
    MathProblems,
    {"data": "hf:openai/gsm8k:main", "problem": "question", "answer": "answer"},
    "Grade-school word problems (GSM8K): 1,319 in test, 7,473 in train.",
)
aime24 = Preset(
    MathProblems,
    {"data": "hf:HuggingFaceH4/aime_2024", "response_tokens": 24_576},
    "The 30 problems of AIME 2024.",
)
deepscaler_8k = Preset(
    MathProblems,
    {"data": _DEEPSCALER, "response_tokens": 8_192},
    "DeepScaleR's competition mathematics, first stage: responses up to 8K tokens.",
)
deepscaler_16k = Preset(
    MathProblems,
    {"data": _DEEPSCALER, "response_tokens": 16_384},
    "DeepScaleR's competition mathematics, second stage: responses up to 16K tokens.",
)
deepscaler_24k = Preset(
    MathProblems,
    {"data": _DEEPSCALER, "response_tokens": 24_576},
    "DeepScaleR's competition mathematics, third stage: responses up to 24K tokens.",
)
deepscaler = Preset(
    MathProblems,
    {"data": _DEEPSCALER, "response_tokens": 24_576},
    "DeepScaleR's competition mathematics: AIME, AMC, MATH, Minerva; responses up to 24K tokens.",
)
