"""Few-shot learning: episodes, inner loops, and the MAML family with gradient sharing."""
