"""The version: below all rooms, so that any of them can write it down."""

__version__ = "0.1.0"
