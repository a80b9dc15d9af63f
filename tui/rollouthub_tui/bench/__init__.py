"""`hub bench tui`: what watching a run costs, measured from outside on a real `hub watch`."""
