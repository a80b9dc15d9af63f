"""`hub estimate`: estimates the tokens, cost, time and disk of a run."""
