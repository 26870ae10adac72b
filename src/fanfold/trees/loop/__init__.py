"""Trees that all members join at once while nothing fails, in compiled loops."""
