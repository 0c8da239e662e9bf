"""Kafka's messages: spec (the language), messages (plans and what runs them), framing (a connection's bytes)."""
