"""Exactly-once writes to topics: one Kafka transaction for each micro-batch."""
