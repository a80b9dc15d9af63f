"""`hub mock-server`: a model server without a model."""
