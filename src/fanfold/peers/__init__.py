"""A file to many hosts by fanfold and by others, over the same shaped links: `fanfold peers`."""
