"""Streaming supply for asynchronous training: scored rollouts, handed out as they finish to a trainer that pulls."""

from rollouthub.errors import SupplyError
from rollouthub.plugins.moved import RENAMED, current_name
from rollouthub.trainers.stream.blocking_stream import BlockingSupply, blocking
from rollouthub.trainers.stream.blocking_worker import BlockingWorker, blocking_worker
from rollouthub.trainers.stream.generation_control import Episodes, GenerationControl, InFlight
from rollouthub.trainers.stream.group_filters import GroupFilter, RewardBand, RewardSpread
from rollouthub.trainers.stream.lora_adapters import LoraAdapters
from rollouthub.trainers.stream.open_stream import stream_rollouts
from rollouthub.trainers.stream.open_worker import RolloutWorker, SampleRequest, rollout_worker
from rollouthub.trainers.stream.rank_directory import rank_directory
from rollouthub.trainers.stream.rollout_group import RolloutGroup
from rollouthub.trainers.stream.sglang_control import SglangControl
from rollouthub.trainers.stream.stream_rules import SupplyRules
from rollouthub.trainers.stream.stream_stats import SupplyStats
from rollouthub.trainers.stream.supply import Supply
from rollouthub.trainers.stream.suspect_scores import trusted
from rollouthub.trainers.stream.vllm_control import VllmControl

Wanted = SampleRequest
"""Deprecated name of `SampleRequest`, until 0.2."""

__all__ = [
    "BlockingSupply",
    "BlockingWorker",
    "Episodes",
    "GenerationControl",
    "GroupFilter",
    "InFlight",
    "LoraAdapters",
    "RewardBand",
    "RewardSpread",
    "RolloutGroup",
    "RolloutWorker",
    "SampleRequest",
    "SglangControl",
    "Supply",
    "SupplyError",
    "SupplyRules",
    "SupplyStats",
    "VllmControl",
    "Wanted",
    "blocking",
    "blocking_worker",
    "rank_directory",
    "rollout_worker",
    "stream_rollouts",
    "trusted",
]


def __getattr__(name: str) -> object:
    if name in RENAMED:
        return globals()[current_name(__name__, name)]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
