"""Rewards over HTTP, for trainers that generate by themselves: verdicts on words, and scores of pictures."""
