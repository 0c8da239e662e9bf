"""Kafka's own cluster tests (``@ClusterTest``, from jars on Maven Central with the classifier ``test``), run on the
embedded broker.
"""
