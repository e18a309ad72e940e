"""Experiments that do not compare training configurations: one file each, run by `pool`."""
