"""The web application over the run store: `hub view`, and the same pages as static files."""
