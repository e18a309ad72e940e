"""Every table and figure of the papers: its entry, its runs, and our numbers beside the published."""
