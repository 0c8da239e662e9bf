"""Primitive types to and from bytes: varints, checksums, sizes."""
