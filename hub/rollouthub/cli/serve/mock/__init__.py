"""`hub serve mock`: a model server without a model."""
