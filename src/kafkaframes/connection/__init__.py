"""One connection's bytes, without I/O."""
