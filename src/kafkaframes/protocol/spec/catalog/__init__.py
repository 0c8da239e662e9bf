"""The catalog of Apache Kafka's messages, every version, as data files and a front that reads them lazily."""

from kafkaframes.protocol.spec.catalog.reading import (
    Api,
    Entry,
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

__all__ = ["Api", "Entry", "about", "api", "apis", "entry", "field_words", "load", "names", "newest_release", "records"]
