"""Where examples come from: readers and sets that need no download."""
