"""`hub runs`: lists the stored runs, newest first."""
