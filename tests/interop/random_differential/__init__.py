"""Random requests to our broker and to Kafka, answer beside answer."""
