"""Bytes to values and back; no state, no numba."""
