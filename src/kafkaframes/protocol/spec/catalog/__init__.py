"""The catalog of all versions of Apache Kafka's messages: data files, and functions that read them lazily."""

from kafkaframes.protocol.spec.catalog.reading import (
    Api,
    IndexEntry,
    field_descriptions,
    find_api,
    find_description,
    find_entry,
    list_apis,
    list_names,
    list_records,
    load_spec,
    newest_release,
)

__all__ = [
    "Api",
    "IndexEntry",
    "field_descriptions",
    "find_api",
    "find_description",
    "find_entry",
    "list_apis",
    "list_names",
    "list_records",
    "load_spec",
    "newest_release",
]
