"""Encoders with one head per task."""
