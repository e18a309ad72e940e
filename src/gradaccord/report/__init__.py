"""One self-contained HTML page about a run or a comparison: tables, figures, commands."""
