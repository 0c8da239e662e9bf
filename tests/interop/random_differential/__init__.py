"""Random requests to our broker and to Kafka, with compared answers."""
