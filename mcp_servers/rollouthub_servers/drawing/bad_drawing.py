"""The error of an invalid drawing."""


class BadDrawing(ValueError):
    """Not a drawing, or one with unsupported content; the message is for its author."""
