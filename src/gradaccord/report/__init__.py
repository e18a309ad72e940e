"""One self-contained HTML page about a run, a comparison or a sweep: tables, figures, commands."""
