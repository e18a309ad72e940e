"""Configurations that come with the library: one for each kind of experiment in the papers."""
