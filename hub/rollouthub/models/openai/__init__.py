"""The openai lane: OpenAI's own package as the client of Chat Completions, Responses and the Batch API."""
