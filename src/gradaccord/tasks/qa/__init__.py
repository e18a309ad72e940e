"""What question answering needs: windows, spans, scores."""
