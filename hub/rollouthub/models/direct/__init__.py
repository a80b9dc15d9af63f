"""The direct lane: a client of the OpenAI chat-completions API over one pooled HTTP connector."""
