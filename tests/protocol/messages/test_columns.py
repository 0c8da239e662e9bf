"""Columns of every message at every version: decoding and encoding agree, with each executor."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.messages.borders import find_class

from kafkaframes.errors import DecodeError, EncodeError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.columns import decode_columns, encode_columns
from kafkaframes.protocol.messages.plan import MessagePlan, plan_message
from kafkaframes.protocol.spec import catalog


def plan_of(name: str, version: int) -> MessagePlan:
    return plan_message(catalog.load_spec(name), version)


MESSAGE_VERSIONS = [
    (name, version) for name in catalog.list_names() for version in catalog.load_spec(name).valid_versions
]


@pytest.mark.parametrize("name", sorted({name for name, _ in MESSAGE_VERSIONS}))
def test_a_row_of_defaults_is_encoded_canonically_and_decoded(name: str) -> None:
    for version in catalog.load_spec(name).valid_versions:
        plan = plan_of(name, version)
        data = encode_columns(plan, pa.array([{}, {}], pa.struct([])))
        row = decode_columns(plan, data, mode="strict")
        row.validate(full=True)
        assert row.field("_error").to_pylist() == [None, None]
        assert encode_columns(plan, row).to_pylist() == data.to_pylist()


class TestInput:
    plan = plan_of("HeartbeatRequest", 4)
    good = encode_columns(plan, pa.array([{"groupId": "g", "memberId": "m"}]))[0].as_py()

    @pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary(), pa.binary_view()])
    def test_any_type_of_binary_array_is_decoded_sliced_or_not(self, type_: pa.DataType) -> None:
        array = pa.array([b"", self.good, None, self.good[:-1], self.good], type_)
        whole = decode_columns(self.plan, array)
        assert whole.field("groupId").to_pylist() == [None, "g", None, None, "g"]
        assert decode_columns(self.plan, array.slice(1, 3)).to_pylist() == whole.to_pylist()[1:4]

    def test_a_list_of_bytes_and_an_empty_list_are_decoded(self) -> None:
        assert decode_columns(self.plan, [self.good])[0].as_py()["memberId"] == "m"
        assert decode_columns(self.plan, []).to_pylist() == []
        assert encode_columns(self.plan, decode_columns(self.plan, [])).to_pylist() == []

    def test_a_null_message_is_null_without_an_error(self) -> None:
        assert set(decode_columns(self.plan, [None])[0].as_py().values()) == {None}

    def test_an_invalid_message_has_a_position_and_does_not_affect_others(self) -> None:
        rows = decode_columns(self.plan, [self.good, self.good[:3], self.good + b"!", self.good]).to_pylist()
        assert [row["groupId"] for row in rows] == ["g", None, None, "g"]
        assert rows[0]["_error"] is None
        assert "byte" in rows[1]["_error"]
        assert "bytes remain" in rows[2]["_error"]


class TestEncode:
    plan = plan_of("MetadataRequest", 12)

    def assert_rejected(self, rows: list[object], match: str) -> None:
        with pytest.raises(EncodeError, match=match):
            encode_columns(self.plan, pa.array(rows))

    def test_an_error_for_null_names_row_and_field(self) -> None:
        topics = [{"name": "a"}]
        self.assert_rejected(
            [{"topics": topics, "allowAutoTopicCreation": x} for x in (True, None)], "row 1, field allowAuto.*null"
        )

    def test_an_error_for_a_too_long_string_names_its_element(self) -> None:
        rows = [{"topics": []}, {"topics": [{"name": "a"}, {"name": "b" * 40000}]}]
        self.assert_rejected(rows, r"row 1, field topics\[1\].name: the string has more")

    def test_an_unknown_column_and_a_wrong_type_are_rejected(self) -> None:
        self.assert_rejected([{"topic": "a"}], "no field topic")
        self.assert_rejected([{"topics": "a"}], "not a list")
        self.assert_rejected([{"allowAutoTopicCreation": "perhaps"}], "allowAutoTopicCreation")

    def test_unknown_tags_must_be_ascending(self) -> None:
        tags = [{"tag": 5, "data": b""}, {"tag": 5, "data": b""}]
        self.assert_rejected(
            [{"_unknown_tags": []}, {"_unknown_tags": tags}], r"row 1, field _unknown_tags: tags must be ascending"
        )

    @pytest.mark.parametrize("list_type", [pa.list_, pa.large_list])
    def test_fields_of_unknown_tags_are_found_by_name(self, list_type: Callable[..., pa.DataType]) -> None:
        tags = list_type(pa.struct([("data", pa.large_binary()), ("tag", pa.int64())]))  # pyarrow 18 casts by position
        rows = pa.array([{"_unknown_tags": [{"tag": 7, "data": b"x"}]}], pa.struct([("_unknown_tags", tags)]))
        (encoded_message,) = encode_columns(self.plan, rows).to_pylist()
        assert encoded_message == message("MetadataRequest")(unknown_tags=[(7, b"x")]).encode(12)

    def test_errors_for_unknown_tags_of_other_types_name_the_field(self) -> None:
        self.assert_rejected([{"_unknown_tags": [7]}], "field _unknown_tags is int64, not a struct")
        self.assert_rejected(
            [{"_unknown_tags": [{"tag": 1 << 40, "data": b""}]}], "field _unknown_tags.tag is int64, not int32"
        )
        self.assert_rejected([{"_unknown_tags": [{"tagg": 1, "data": b""}]}], "row 0, field _unknown_tags: null")

    def test_a_field_of_another_version_must_be_ignorable_or_at_its_default(self) -> None:
        plan = plan_of("MetadataRequest", 3)
        rows = [{"topics": [{"name": "a"}], "allowAutoTopicCreation": x} for x in (True, False)]
        assert len(encode_columns(plan, pa.array(rows[:1]))) == 1
        with pytest.raises(EncodeError, match=r"row 1, field allowAuto.*not the default.*first version is 4"):
            encode_columns(plan, pa.array(rows))

    def test_a_null_row_is_null(self) -> None:
        assert encode_columns(self.plan, pa.array([None, {"topics": []}])).is_null().to_pylist() == [True, False]


@given(
    st.sampled_from(MESSAGE_VERSIONS),
    st.lists(st.binary(max_size=80), max_size=4),
    st.sampled_from(["reference", "strict"]),
)
def test_any_bytes_give_valid_arrays(case: tuple[str, int], messages: list[bytes], mode: str) -> None:
    decode_columns(plan_of(*case), messages, mode=mode).validate(full=True)


def test_a_negative_number_of_tagged_fields_is_rejected_like_in_kafka_4_4():
    """Kafka before 4.4 read it as no tagged fields.

    The strict mode also rejects this varint because it is not canonical.
    """
    request = message("FetchRequest")
    for version in (12, request.spec.latest_stable_version):
        good = request(max_wait_ms=1).encode(version)
        for count in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08"):
            bad = good[:-1] + count
            with pytest.raises(DecodeError, match="negative number of tagged fields") as caught:
                request.decode(bad, version)
            rows = request.decode_columns([good, bad, good], version)
            assert rows.field("_error").to_pylist() == [None, str(caught.value), None]
            for fast in (True, False):
                rows = decode_columns(request.codec(version).plan, [bad], specialized=fast)
                assert "negative number of tagged fields" in rows[0]["_error"].as_py()


class TestFieldsOfOtherVersions:
    fetch = message("FetchRequest")  # has the tagged struct ReplicaState since version 15

    def test_a_default_struct_is_accepted_at_a_version_without_it(self):
        values = [self.fetch(max_wait_ms=wait) for wait in range(3)]
        columns = self.fetch.decode_columns([value.encode(15) for value in values], 15)
        assert self.fetch.encode_columns(columns, 14).to_pylist() == [value.encode(14) for value in values]

    def test_a_non_default_struct_is_rejected_at_a_version_without_it(self):
        values = [self.fetch(), self.fetch(replica_state=self.fetch.ReplicaState(replica_id=3))]
        columns = self.fetch.decode_columns([value.encode(15) for value in values], 15)
        with pytest.raises(EncodeError, match="row 1, field replicaState: the value is not the default"):
            self.fetch.encode_columns(columns, 14)
        with pytest.raises(EncodeError, match="not the default"):
            values[1].encode(14)

    @pytest.mark.parametrize("value", [None, {"myString": "a"}, {"myInt": 1}, {"_unknown_tags": [(1, b"")]}])
    def test_null_is_rejected_if_it_is_not_the_default(self, value):
        cls = find_class("NullableStructMessage")
        row = {"nullableStruct2": {"myString": "x", "myInt": 1}, "nullableStruct4": value}
        if value and "_unknown_tags" in value:
            row["nullableStruct4"] = {"_unknown_tags": [{"tag": 1, "data": b""}]}
        with pytest.raises(EncodeError, match="field nullableStruct4: the value is not the default"):
            cls.encode_columns(pa.array([row]), 0)
        row["nullableStruct4"] = {"myString": "", "myInt": 0}
        assert cls.encode_columns(pa.array([row]), 0)[0].as_py() == bytes.fromhex("ff00017800000001")
