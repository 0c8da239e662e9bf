"""The reasons why a scan or a batch's records end, as status codes and as text, and the values of ``on_damage``.

The kinds of damage are those that Kafka distinguishes.
"""

from __future__ import annotations

# Status codes of the end of a scan.
MORE, FULL, END, TORN, SMALL_SIZE, HUGE_SIZE, BAD_MAGIC = range(7)
END_REASONS = {
    END: "the end of the data",
    TORN: "the last batch is not whole",
    SMALL_SIZE: "the size of a batch is below the minimum (14)",
    HUGE_SIZE: "the size of a batch exceeds 2^31",
    BAD_MAGIC: "the magic of a batch is not 0, 1 or 2",
}
# Kafka reports an error for these status codes, but not for END and TORN.
CORRUPT_END_REASONS = frozenset({SMALL_SIZE, HUGE_SIZE, BAD_MAGIC})

# Status codes of a batch's records: WHOLE, or the reason why they end early.
(
    WHOLE,
    SHORT_HEADER,
    UNKNOWN_CODEC,
    NEGATIVE_COUNT,
    PREMATURE_END,
    DAMAGED_STREAM,
    LEFT_OVER,
    BAD_VARINT,
    BAD_RECORD_LENGTH,
    BAD_HEADER_COUNT,
    NULL_HEADER_KEY,
    FIELD_PAST_RECORD,
    LENGTH_MISMATCH,
    EMPTY_SET,
    NULL_SET,
    SMALL_INNER_SIZE,
    OFFSET_BELOW_INNER,
    NESTED,
    UNREADABLE_FIELD,
    CODEC_OF_LATER_FORMAT,
    WRAPPER_MAGIC,
    TOO_MANY_RECORDS,
    TOO_MANY_HEADERS,
) = range(23)
# A batch of a few kilobytes can contain a hundred million records or headers of the minimum size. Their index in memory
# is many times larger, and Kafka's own reader would fail much earlier.
MAX_RECORDS = MAX_HEADERS = 1 << 24
RECORD_REASONS = {
    SHORT_HEADER: "the batch is shorter than its header",
    UNKNOWN_CODEC: "the codec number is unknown to Kafka",
    NEGATIVE_COUNT: "the count of records is negative",
    PREMATURE_END: "the data ends before the declared count of records",
    DAMAGED_STREAM: "the compressed data is damaged",
    LEFT_OVER: "data is left after the declared count of records",
    BAD_VARINT: "a varint is too long or truncated",
    BAD_RECORD_LENGTH: "the length of a record is negative or beyond the data",
    BAD_HEADER_COUNT: "the count of headers is negative or beyond the record",
    NULL_HEADER_KEY: "the key of a header is null",
    FIELD_PAST_RECORD: "a key, a value or a header is longer than its record",
    LENGTH_MISMATCH: "the fields of a record do not fill its length",
    EMPTY_SET: "a compressed message set is empty",
    NULL_SET: "a compressed message has no value",
    SMALL_INNER_SIZE: "the size of an inner message is below the minimum (14)",
    OFFSET_BELOW_INNER: "the wrapper's offset is below the last inner offset",
    NESTED: "an inner message is itself compressed",
    UNREADABLE_FIELD: "the key or the value of a message is longer than the message",
    CODEC_OF_LATER_FORMAT: "zstd in a message of format 0 or 1",
    WRAPPER_MAGIC: "a compressed message of neither format 0 nor 1",
    TOO_MANY_RECORDS: f"the batch has more than {MAX_RECORDS} records",
    TOO_MANY_HEADERS: f"the records of the batch have more than {MAX_HEADERS} headers",
}
CRC_MISMATCH = "the CRC does not match the bytes"


# The values of ``on_damage``: KEEP returns the same records as Kafka's own reader, or copies damaged bytes unchanged;
# DROP omits damaged batches; FAIL raises at the first damage.
KEEP, DROP, FAIL = "keep", "drop", "fail"
ON_DAMAGE = (KEEP, DROP, FAIL)
# Spark's names for these values. Spark sources accept them, and the state of jobs contains them.
SPARK_MODES = {KEEP: "PERMISSIVE", DROP: "DROPMALFORMED", FAIL: "FAILFAST"}
