"""Of the library."""
