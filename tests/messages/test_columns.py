"""Columns, over every message at every version: they agree with themselves both ways, whatever executes them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import EncodeError
from kafkaframes.messages.columns import decode_columns, encode_columns
from kafkaframes.messages.plan import MessagePlan, plan_message
from kafkaframes.spec import catalog


def plan_of(name: str, version: int) -> MessagePlan:
    return plan_message(catalog.load(name), version)


CASES = [(name, version) for name in catalog.names() for version in catalog.load(name).valid_versions]


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_a_row_of_defaults_is_encoded_canonically_and_read_back(name: str) -> None:
    for version in catalog.load(name).valid_versions:
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
    def test_any_binary_array_sliced_or_not(self, type_: pa.DataType) -> None:
        array = pa.array([b"", self.good, None, self.good[:-1], self.good], type_)
        whole = decode_columns(self.plan, array)
        assert whole.field("groupId").to_pylist() == [None, "g", None, None, "g"]
        assert decode_columns(self.plan, array.slice(1, 3)).to_pylist() == whole.to_pylist()[1:4]

    def test_a_list_of_bytes_and_nothing(self) -> None:
        assert decode_columns(self.plan, [self.good])[0].as_py()["memberId"] == "m"
        assert decode_columns(self.plan, []).to_pylist() == []
        assert encode_columns(self.plan, decode_columns(self.plan, [])).to_pylist() == []

    def test_a_null_message_is_null_without_an_error(self) -> None:
        assert set(decode_columns(self.plan, [None])[0].as_py().values()) == {None}

    def test_a_bad_message_names_its_byte_and_spoils_no_other(self) -> None:
        rows = decode_columns(self.plan, [self.good, self.good[:3], self.good + b"!", self.good]).to_pylist()
        assert [row["groupId"] for row in rows] == ["g", None, None, "g"]
        assert rows[0]["_error"] is None
        assert "byte" in rows[1]["_error"]
        assert "left over" in rows[2]["_error"]


class TestEncode:
    plan = plan_of("MetadataRequest", 12)

    def refuse(self, rows: list[object], match: str) -> None:
        with pytest.raises(EncodeError, match=match):
            encode_columns(self.plan, pa.array(rows))

    def test_a_null_where_none_may_be_names_row_and_field(self) -> None:
        topics = [{"name": "a"}]
        self.refuse(
            [{"topics": topics, "allowAutoTopicCreation": x} for x in (True, None)], "row 1, field allowAuto.*null"
        )

    def test_a_string_that_is_too_long_names_its_element(self) -> None:
        rows = [{"topics": []}, {"topics": [{"name": "a"}, {"name": "b" * 40000}]}]
        self.refuse(rows, r"row 1, field topics\[1\].name: string of more")

    def test_an_unknown_column_and_a_wrong_type(self) -> None:
        self.refuse([{"topic": "a"}], "no field topic")
        self.refuse([{"topics": "a"}], "not a list")
        self.refuse([{"allowAutoTopicCreation": "perhaps"}], "allowAutoTopicCreation")

    def test_unknown_tags_must_ascend(self) -> None:
        tags = [{"tag": 5, "data": b""}, {"tag": 5, "data": b""}]
        self.refuse([{"_unknown_tags": []}, {"_unknown_tags": tags}], r"row 1, field _unknown_tags: tags must ascend")

    def test_a_field_of_another_version_must_be_ignorable_or_at_its_default(self) -> None:
        plan = plan_of("MetadataRequest", 3)
        rows = [{"topics": [{"name": "a"}], "allowAutoTopicCreation": x} for x in (True, False)]
        assert len(encode_columns(plan, pa.array(rows[:1]))) == 1
        with pytest.raises(EncodeError, match=r"row 1, field allowAuto.*not the default.*first is 4"):
            encode_columns(plan, pa.array(rows))

    def test_a_null_row_is_null(self) -> None:
        assert encode_columns(self.plan, pa.array([None, {"topics": []}])).is_null().to_pylist() == [True, False]


@given(st.sampled_from(CASES), st.lists(st.binary(max_size=80), max_size=4), st.sampled_from(["reference", "strict"]))
def test_any_bytes_give_valid_arrays(case: tuple[str, int], messages: list[bytes], mode: str) -> None:
    decode_columns(plan_of(*case), messages, mode=mode).validate(full=True)
