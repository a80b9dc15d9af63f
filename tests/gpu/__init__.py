"""What needs a GPU, measured by one command: `python -m tests.gpu`. With `--cpu` all of it that a CPU can do."""
