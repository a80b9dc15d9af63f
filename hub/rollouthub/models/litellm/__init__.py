"""The litellm lane: every provider that litellm speaks to, with the direct lane's results."""
