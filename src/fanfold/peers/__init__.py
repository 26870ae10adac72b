"""A file to many hosts by fanfold and others over the same shaped links: `fanfold peers`."""
