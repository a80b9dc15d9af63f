"""The environments that ship with the hub, a folder each."""
