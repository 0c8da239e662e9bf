"""Encoding of primitive types: varints, fixed-size numbers, strings and checksums."""
