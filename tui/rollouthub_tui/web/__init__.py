"""The screens in a browser on this machine: a server that admits only requests with its token."""
