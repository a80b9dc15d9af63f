"""Reports of runs: facts and figures, gathered once and written in several formats."""
