"""The demo: three problems that need no data, and what gradient methods do on them, on one page."""
