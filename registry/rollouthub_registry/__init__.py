"""Publishing and installing environments: bundles, signatures, checks, registries and their server.

Imports the core only. `hub publish` begins in `publish/publication.py`, `hub install` in
`install_flow/transaction.py`, a registry in `server/registry.py`, `hub check` in `check/check_run.py`.
"""
