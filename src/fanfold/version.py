"""The version of this fanfold."""

VERSION = "0.1.0"
