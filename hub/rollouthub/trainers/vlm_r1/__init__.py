"""VLM-R1: a reward function for its trainer's registry, and the JSON lines it reads, with pictures by reference."""

from rollouthub.trainers.vlm_r1.jsonl_reward import answer_of, hub_reward, jsonl_rows, write_jsonl

__all__ = ["answer_of", "hub_reward", "jsonl_rows", "write_jsonl"]
