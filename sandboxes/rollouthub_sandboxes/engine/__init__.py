"""The container engine, Docker or Podman, as this package calls it: its address, its API, streams, and labels."""
