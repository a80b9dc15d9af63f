"""How people watch rollouts: a terminal UI that attaches to any run of this machine, live or ended."""
