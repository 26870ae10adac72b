"""fanfold: one message to many, many folded into one.

BIER point-to-multipoint forwarding (RFC 8279, RFC 8296) in software BFRs, with feedback
folded on the way back by the same BitString.
"""

__version__ = "0.1.0"
