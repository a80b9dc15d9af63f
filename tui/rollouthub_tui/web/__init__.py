"""The screens in a browser on this machine: a server that lets in whoever has its token, and nobody else."""
