"""The app: `hub watch` as a command, and Textual's application around the screens."""
