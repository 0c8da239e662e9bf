"""Decoding of record values into columns: JSON, Avro and Protobuf, with schemas from files or a schema registry."""
