"""The file and tensor service: manifest, source, store, sender, receiver."""
