"""How people watch rollouts: the home of the terminal UI."""
