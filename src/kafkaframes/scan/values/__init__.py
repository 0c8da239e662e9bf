"""Values of records as columns: JSON, Avro, Protobuf, with schemas of files or of a schema registry."""
