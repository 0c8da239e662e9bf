"""What messages cost on the wire: pure functions on messages and columns."""
