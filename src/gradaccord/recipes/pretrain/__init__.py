"""Configurations of `gradaccord pretrain`."""
