"""The commands that ask registries; each imports what it needs when it runs, so that `--help` is instant."""
