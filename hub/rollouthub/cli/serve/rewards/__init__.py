"""`hub serve rewards`: serves verifiers over HTTP."""
