"""The sandbox providers: containers of Docker or Podman, and processes of this machine.

Imports the core only. Begin with `docker/provider.py` or `process/provider.py`; both use `supervisor/`.
"""
