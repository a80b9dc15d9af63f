"""An environment as one archive: built the same everywhere, and refused where it could do harm."""
