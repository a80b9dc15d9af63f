"""Dialogs: questions to a person before an action, shown on top of the screen it came from."""
