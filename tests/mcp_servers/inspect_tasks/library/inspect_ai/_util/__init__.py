"""Inner things."""
