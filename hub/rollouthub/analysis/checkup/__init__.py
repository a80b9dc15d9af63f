"""Checks of what a run needs: the machine, a model's server, an environment's tasks, a Ray cluster."""
