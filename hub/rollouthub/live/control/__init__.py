"""Live control: a socket of every running hub, through which its user watches and controls the run."""
