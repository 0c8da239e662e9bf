"""The catalog of all versions of Apache Kafka's messages: data files, and functions that read them lazily."""

from kafkaframes.protocol.spec.catalog.reading import (
    Api,
    IndexEntry,
    about,
    api,
    apis,
    entry,
    field_words,
    load,
    names,
    newest_release,
    records,
)

__all__ = [
    "Api",
    "IndexEntry",
    "about",
    "api",
    "apis",
    "entry",
    "field_words",
    "load",
    "names",
    "newest_release",
    "records",
]
