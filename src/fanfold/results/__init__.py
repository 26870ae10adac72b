"""What came out of a run: rows, their schema, files and queries."""
