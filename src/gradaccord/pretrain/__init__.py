"""Masked-LM pretraining."""
