"""VLM-R1: a reward function for its trainer's registry, and data sets as JSON lines with references to pictures."""

from rollouthub.trainers.vlm_r1.jsonl_reward import answer_of, hub_reward, jsonl_rows, write_jsonl

__all__ = ["answer_of", "hub_reward", "jsonl_rows", "write_jsonl"]
