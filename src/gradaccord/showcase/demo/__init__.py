"""The demo: four problems that need no data, and what gradient methods do on them, on one page."""
