"""Trees of PIM, mLDP and SR-P2MP as they are built, changed and mended by messages."""
