"""`hub bench tui`: what watching costs, seen from outside: a real `hub watch` in a terminal of its own."""
