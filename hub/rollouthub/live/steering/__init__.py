"""What a person may do with a run that plays: the run as it is watched, what is possible, and what is asked before."""
