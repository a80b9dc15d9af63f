"""Adapters, a file a training system. Each imports its system only where a class of it is needed."""
