"""Protocol roles without input or output: events in, effects out (ADR 0001)."""
