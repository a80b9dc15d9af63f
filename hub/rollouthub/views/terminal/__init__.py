"""Text drawings of a run, shared by the terminal UI and `hub run`. They need only Rich, and no screen."""
