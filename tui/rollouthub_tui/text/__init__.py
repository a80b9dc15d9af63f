"""`hub watch --text`: runs in plain lines, for screen readers, braille displays, dumb terminals and pipes.

The cursor is not moved, nothing is overwritten, and there are no colours or escape sequences. Text shared with the
screens comes from the same modules; none that needs Textual is imported.
"""
