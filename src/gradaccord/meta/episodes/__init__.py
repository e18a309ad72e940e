"""Few-shot tasks: where they come from, and the batches of them."""
