"""Readers of data sets as their publishers ship them, one file for each family."""
