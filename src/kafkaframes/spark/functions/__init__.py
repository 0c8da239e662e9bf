"""Spark functions for columns: Kafka messages, and the header of a schema registry's serializers."""

from kafkaframes.spark.functions.messages import decode_message, decode_request, decode_response, encode_message
from kafkaframes.spark.functions.schema_ids import payload, schema_id

__all__ = ["decode_message", "decode_request", "decode_response", "encode_message", "payload", "schema_id"]
