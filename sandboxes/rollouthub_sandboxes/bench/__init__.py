"""What sandboxes cost on this machine, beside what the engine costs without us, measured in the same run."""
