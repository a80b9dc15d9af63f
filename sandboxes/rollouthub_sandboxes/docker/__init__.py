"""The docker sandbox: containers of Docker or Podman, hardened, pooled, and never left behind."""
