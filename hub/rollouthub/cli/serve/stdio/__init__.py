"""`hub serve stdio`: a served episode over stdin and stdout."""
