"""The commands that ask registries. Each imports what it needs when it runs, so that `--help` is instant."""
