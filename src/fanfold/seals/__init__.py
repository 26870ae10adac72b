"""Keys of ends: what a node signs with, whom it trusts, and what both make of it."""
