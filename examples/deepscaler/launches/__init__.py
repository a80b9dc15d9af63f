"""Launch files of the recipe: a module for each training system."""
