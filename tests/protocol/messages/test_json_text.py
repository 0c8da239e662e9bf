"""JSON texts that a kernel writes from columns equal json.dumps of the objects' form, for every message and version."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.protocol.messages.values import list_message_versions, make_value

from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.columns import decode_columns
from kafkaframes.protocol.messages.json_text import can_write_text, to_json_text
from kafkaframes.protocol.spec import catalog

dump_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def format_both(cls, version, values, records="empty"):
    """Return the kernel's texts and the objects' texts for the same bytes."""
    data = [value.encode(version) for value in values]
    array = decode_columns(cls.codec(version).plan, data)
    texts = to_json_text(array, cls.codec(version), records=records)
    texts.validate(full=True)
    return texts.to_pylist(), [dump_json(cls.decode(one, version).to_json(version, records=records)) for one in data]


@pytest.mark.parametrize("name", catalog.list_names())
def test_texts_of_every_message_at_every_version_are_equal(name):
    cls = message(name)
    for version in catalog.load_spec(name).valid_versions:
        values = [cls(), *(make_value(cls, version, seed) for seed in range(3))]
        actual_text, expected_text = format_both(cls, version, values, "size" if version % 2 else "empty")
        if can_write_text(cls.codec(version).plan.root):
            assert actual_text == expected_text
        else:
            assert actual_text == [None] * len(values)


def test_only_some_versions_have_no_text():
    pairs = list_message_versions()
    without_text = [pair for pair in pairs if not can_write_text(message(pair[0]).codec(pair[1]).plan.root)]
    assert 0 < len(without_text) < len(pairs) / 50


def test_text_is_escaped_like_in_json():
    cls = message("HeartbeatRequest")
    texts = ["".join(map(chr, range(0x80))), '{"', "[", "\\", "é€𝄞\u2028", '"' * 300]
    actual_text, expected_text = format_both(cls, 4, [cls(group_id=text) for text in texts])
    assert actual_text == expected_text
    assert [json.loads(text)["groupId"] for text in actual_text] == texts


def test_numbers_are_formatted():
    cls = message("DescribeTransactionsResponse")
    numbers = [0, 9, 10, -1, -9, -10, 99, 100, 2**63 - 1, -(2**63), -(2**63) + 1, 10**18, -(10**18)]
    values = [
        cls.from_json({"throttleTimeMs": 0, "transactionStates": [_build_json_row(number)]}, 0) for number in numbers
    ]
    actual_text, expected_text = format_both(cls, 0, values)
    assert actual_text == expected_text
    assert [json.loads(text)["transactionStates"][0]["producerId"] for text in actual_text] == numbers


def _build_json_row(number):
    texts = {"transactionalId": "t", "transactionState": "s", "topics": []}
    return (
        texts
        | {"errorCode": 0, "transactionTimeoutMs": 0, "transactionStartTimeMs": 0}
        | {
            "producerId": number,
            "producerEpoch": 0,
        }
    )


def test_unknown_tags_and_invalid_messages_have_no_text():
    cls = message("HeartbeatRequest")
    good = cls(group_id="g").encode(4)
    odd = cls(group_id="g", unknown_tags=[(9, b"x")]).encode(4)
    array = decode_columns(cls.codec(4).plan, [good, odd, good[:3], good])
    texts = to_json_text(array, cls.codec(4), left_out=array.field("_error").is_valid()).to_pylist()
    assert [text is None for text in texts] == [False, True, True, False]
    assert texts[0] == texts[3] == dump_json(cls.decode(good, 4).to_json(4))


def test_memory_grows_for_texts_longer_than_the_bytes():
    cls = message("HeartbeatRequest")
    actual_text, expected_text = format_both(cls, 4, [cls(group_id="\1" * 30000)] * 20)
    assert actual_text == expected_text


def test_empty_input_and_invalid_forms():
    codec = message("HeartbeatRequest").codec(4)
    nothing = decode_columns(codec.plan, [])
    assert to_json_text(nothing, codec) == pa.array([], pa.string())
    with pytest.raises(OptionError, match="expected 'empty' or 'size'"):
        to_json_text(nothing, codec, records="base64")
