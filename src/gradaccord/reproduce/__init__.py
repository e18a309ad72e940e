"""Every table and figure of the papers: its file, its runs, and ours beside the published numbers."""
