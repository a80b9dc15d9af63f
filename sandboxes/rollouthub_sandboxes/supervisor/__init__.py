"""The supervisor: a small static program that starts, feeds, watches and kills commands inside a sandbox."""
