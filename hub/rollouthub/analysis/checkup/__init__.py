"""Looking at what a run is about to use: this machine, a model's server, an environment's tasks, a Ray cluster."""
