"""`hub serve stdio`: connects stdin and stdout to a served episode."""
