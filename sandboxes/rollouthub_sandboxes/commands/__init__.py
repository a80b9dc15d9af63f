"""The commands `hub images` and `hub sandbox`, and the sandbox part of `hub doctor`; heavy imports happen when they
run.
"""
