"""Collectives of a group of ranks on the live fabric: arrays folded up, results fanned down."""
