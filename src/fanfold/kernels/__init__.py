"""Compiled procedures over arrays: arrays in, arrays out, nothing else (ADR 0004)."""
