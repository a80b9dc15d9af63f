"""`hub new`: a new environment package, small and whole."""
