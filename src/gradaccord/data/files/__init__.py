"""Files as people have them: tables, JSON lines, CoNLL, hub folders."""
