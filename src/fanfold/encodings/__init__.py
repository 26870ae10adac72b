"""Ways to name many receivers in one packet: bytes, how switches read them, what each costs."""
