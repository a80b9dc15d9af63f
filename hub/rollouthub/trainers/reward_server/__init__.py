"""Rewards over HTTP, for trainers that generate by themselves: verdicts on text answers, and scores of pictures."""
