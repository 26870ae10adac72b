"""Largest errors against packets, ppm: `make rungs` (tests/rung_errors.py)."""

MEASURED: tuple[tuple[str, int, str, str, int], ...] = ()
