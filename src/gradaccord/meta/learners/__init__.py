"""One file a few-shot learner, over two inner loops."""
