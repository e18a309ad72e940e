"""What training does to a model: alignment of gradients, distance, and what was forgotten."""
