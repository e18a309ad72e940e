"""Masked-LM pretraining: its configuration, texts, tokenizer, model and loop."""
