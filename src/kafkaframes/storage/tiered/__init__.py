"""Tiered storage: segments that a broker moved into an object store, read as the log that they are part of."""
