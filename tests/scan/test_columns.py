"""Which columns a read of ``kafka-log`` has; no JVM."""

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.scan.columns import SPARKS_OWN, choose_columns, ddl


def names(*given, **named):
    return [column.name for column in choose_columns(*given, **named)]


def test_by_default_they_are_those_of_sparks_own_source():
    assert tuple(names(None)) == SPARKS_OWN
    assert names(None, include_headers=True) == [*SPARKS_OWN, "headers"]
    assert names(["headers"], include_headers=True) == ["headers"]
    assert "headers" not in names(None, include_headers=True, table="batches")


def test_rows_of_several_copies_say_which_copy_they_are_of():
    assert names(["offset"], source=True) == ["offset", "source"]
    assert names(["SOURCE"], source=True) == ["source"]


def test_names_are_taken_in_any_letter_case_and_in_the_order_wanted():
    assert names(["TIMESTAMPTYPE", "key"]) == ["timestampType", "key"]
    with pytest.raises(OptionError, match="offset is named twice"):
        choose_columns(["offset", "Offset"])
    with pytest.raises(OptionError, match="no column ofset; did you mean offset"):
        choose_columns(["ofset"])
    with pytest.raises(OptionError, match="one of key, value"):
        choose_columns(["zzz"])


def test_a_comment_stands_on_the_first_column():
    assert ddl(choose_columns(["key", "offset"]), "why") == "`key` binary COMMENT 'why', `offset` bigint"
