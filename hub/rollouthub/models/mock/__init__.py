"""Mock models and their server: models that answer at once and always the same."""
