"""`hub runs`: the runs that are kept, newest first."""
