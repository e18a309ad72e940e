"""The version: below all rooms, so that any of them can record it."""

__version__ = "0.2.0"
