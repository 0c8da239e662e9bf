"""Kafka's protocol: spec (the spec language), messages (encoding by plans), framing (bytes of a connection)."""
