"""The model seam: an API that agents know, in front of the run's model; every call of theirs is a recorded turn."""
