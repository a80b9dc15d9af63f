"""What sandboxes cost on this machine, measured in the same run as the container engine used directly."""
