"""Message sets v0 and v1, record batches v2: values, columns, building."""
