"""`hub watch --text`: runs in plain lines, for screen readers, braille displays, dumb terminals, serial consoles,
pipes.

Nothing here draws: the cursor is not moved, nothing is overwritten, and no colours or escape sequences are written.
Text shared with the screens comes from the same modules; none that needs Textual is imported.
"""
