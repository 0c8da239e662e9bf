"""``validate_and_assign``: settings as keywords, and invalid offsets."""

import pytest

from kafkaframes import build_records
from kafkaframes.errors import OptionError
from kafkaframes.records.append import AppendSettings, validate_and_assign

RECORD_SET = build_records([{"value": b"a"}, {"value": b"b"}])


def test_keyword_settings_override_the_settings_object():
    append_result = validate_and_assign(RECORD_SET, 7, AppendSettings(leader_epoch=3, codec="gzip"), codec="none")
    assert append_result == validate_and_assign(RECORD_SET, 7, leader_epoch=3, codec="none")
    assert append_result.next_offset == 9


def test_an_unknown_setting_and_an_invalid_offset_are_rejected():
    with pytest.raises(OptionError, match="unknown setting leader_epok; expected"):
        validate_and_assign(RECORD_SET, 0, leader_epok=3)
    for offset in (-1, 2**63 - 1):
        with pytest.raises(OptionError, match=str(offset)):
            validate_and_assign(RECORD_SET, offset)
