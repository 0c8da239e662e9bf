"""Recorded network traffic as Kafka calls: capture files, TCP streams, frames, calls; and request logs of brokers."""
