"""`hub serve model`: starts vLLM or SGLang servers of a model."""
