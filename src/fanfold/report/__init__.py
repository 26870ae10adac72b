"""One page of what a study found: figures, tables, and all that was assumed."""
