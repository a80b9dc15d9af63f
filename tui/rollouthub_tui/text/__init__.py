"""`hub watch --text`: runs in plain lines, for screen readers, braille lines, dumb terminals, serial consoles, pipes.

Nothing here draws: no cursor is moved, nothing is written over, no colour or escape sequence is sent. What the screens
and this share is read and said by the same parts; of those that need Textual, nothing is imported.
"""
