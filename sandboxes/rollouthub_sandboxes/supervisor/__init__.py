"""The supervisor: one small static program that starts, feeds, watches and kills commands inside a sandbox."""
