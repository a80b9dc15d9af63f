"""What finished runs and machines are asked: comparison, new scores, symptoms, estimates.

Imports the engine and below, and `live.follow`. Begin with `compare/`.
"""
