"""Runs of one set of tasks side by side: which model is better, by how much, and what the rest would cost."""
