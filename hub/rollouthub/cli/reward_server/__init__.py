"""`hub reward-server`: verifiers over HTTP."""
