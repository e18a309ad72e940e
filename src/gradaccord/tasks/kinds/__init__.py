"""One file a kind of task."""
