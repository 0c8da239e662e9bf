"""Send random requests to the embedded broker and to Kafka, and compare the answers."""
