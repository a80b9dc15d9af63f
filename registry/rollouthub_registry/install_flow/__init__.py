"""What `hub install`, `upgrade`, `remove` and `lock` do: from what was asked for to what is installed and locked."""
