"""`hub serve rewards`: verifiers over HTTP."""
