"""`hub live`: inspects and controls runs in progress."""
