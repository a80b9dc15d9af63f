"""`hub serve mock`: serves a mock model."""
