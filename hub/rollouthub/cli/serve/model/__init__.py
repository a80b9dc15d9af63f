"""`hub serve model`: vLLM servers of a model."""
