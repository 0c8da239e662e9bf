"""The selected part of a log as a value: mutually exclusive options, and topics as glob patterns."""

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.selection import to_topic_options


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"subscribe": frozenset("a"), "assign": {"a": (0,)}}, "`subscribe`, `assign` cannot be combined"),
        ({"decode": "internal", "table": "batches"}, "`decode`=internal requires `table`=records, not batches"),
    ],
)
def test_mutually_exclusive_settings_are_named(settings, message):
    with pytest.raises(OptionError, match=message):
        ReadOptions(paths=("/x",), **settings)


def test_topics_are_names_or_patterns_of_whole_names():
    assert to_topic_options([]) == {}
    assert to_topic_options(["a", "b"]) == {"subscribe": frozenset("ab")}
    pattern = to_topic_options(["a*", "b"])["subscribe_pattern"]
    assert [bool(pattern.fullmatch(name)) for name in ("abc", "b", "bc", "cab")] == [True, True, False, False]
