"""What is learned: one module for each kind of task, with its head, loss, decoding and metric."""
