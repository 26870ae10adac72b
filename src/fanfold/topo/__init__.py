"""Fabrics as graphs, and the tables that follow from them."""
