"""Methods that make the gradients of two batches agree: DotProd, its controls, and SAM."""
