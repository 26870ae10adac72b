"""One frozen description of a run: fabric, work, schemes, settings, seed."""
