"""Read Kafka calls from packet captures and from request logs of brokers."""
