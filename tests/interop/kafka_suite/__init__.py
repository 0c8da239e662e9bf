"""Kafka's own cluster tests (``@ClusterTest``, jars of Maven Central with the classifier ``test``) on the broker."""
