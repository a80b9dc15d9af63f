"""The litellm lane: calls every provider that litellm supports, with the same results as the direct lane."""
