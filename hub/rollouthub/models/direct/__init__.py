"""The direct lane: the OpenAI chat-completions wire over one pooled HTTP connection."""
