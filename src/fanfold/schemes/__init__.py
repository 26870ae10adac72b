"""Who sends what to whom: each scheme turns a collective into a program of messages."""
