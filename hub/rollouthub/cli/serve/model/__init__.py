"""`hub serve model`: starts vLLM servers of a model."""
