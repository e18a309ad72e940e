"""Reproduces every table and figure of the papers: entries, runs, our numbers beside the published."""
