"""What asks registries: where they are, what they offer, and with which token."""
