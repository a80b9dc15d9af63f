"""`hub list`: what can be run here."""
