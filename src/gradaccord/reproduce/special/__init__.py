"""Experiments that are no comparison of training configurations: one file each, run by `pool`."""
