"""The formats of other tools that are read as runs, a file each, registered under `rollouthub.run_readers`."""
