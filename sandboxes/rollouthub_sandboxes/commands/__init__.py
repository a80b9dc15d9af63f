"""The commands `hub images` and `hub sandbox`; they import what they need when they run."""
