"""Values for new fields: constants, ranges, functions, and invalid ones."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from kafkaframes.errors import OptionError
from kafkaframes.jobs.analyze.added_fields import plan_new_columns
from kafkaframes.jobs.analyze.proposals import CHANGED, MessageForm, ProposalSettings
from kafkaframes.jobs.analyze.size_comparison import ComparisonTask, run_comparison_task
from kafkaframes.jobs.analyze.traffic import TrafficTask
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.spec import catalog, load_message
from kafkaframes.protocol.spec.emit import to_text

FORM = MessageForm(catalog.load_spec("MetadataResponse"), 12, catalog.load_spec("ResponseHeader"))
STRUCTS = pa.array([{"name": "a"}, {"name": "bb"}, {"name": "ccc"}])


def field_at(*path):
    struct, field = plan_message(FORM.spec, 12).root, None
    for name in path:
        (field,) = (one for one in (*struct.fields, *struct.tagged_fields) if one.name == name)
        struct = field.struct
    return field


def make_column(path, value):
    ((where, make),) = plan_new_columns((f"MetadataResponse.{path}={value}",), FORM, has_header=True).items()
    assert where == "body." + ".".join(name[:1].lower() + name[1:] for name in path.split("."))
    return make(STRUCTS, field_at(*path.split("."))).to_pylist()


@pytest.mark.parametrize(
    ("path", "value", "column"),
    [
        ("ControllerId", "7", [7, 7, 7]),
        ("ClusterId", "null", [None] * 3),
        ("ClusterId", "plain text", ["plain text"] * 3),
        ("Topics.TopicId", '"x"', [b"x" + bytes(15)] * 3),
        ("Topics.Partitions.IsrNodes", "[1, 2]", [[1, 2]] * 3),
        ("Topics.IsInternal", "true", [True] * 3),
    ],
)
def test_constants(path, value, column):
    assert make_column(path, value) == column


def test_ranges_are_numbers_or_lengths():
    assert sorted(make_column("ControllerId", "5..7")) == [5, 6, 7]
    assert sorted(map(len, make_column("ClusterId", "1..3"))) == [1, 2, 3]
    assert sorted(map(len, make_column("Topics.Partitions.IsrNodes", "0..2"))) == [0, 1, 2]
    assert sorted(map(len, make_column("Brokers", "0..2"))) == [0, 1, 2]


def test_a_function_gets_each_struct(tmp_path):
    (tmp_path / "values.py").write_text("def length(topic):\n    return len(topic['name'])\n")
    assert make_column("ControllerId", f"@{tmp_path}/values.py:length") == [1, 2, 3]
    with pytest.raises(OptionError, match="the file does not define a function other"):
        make_column("ControllerId", f"@{tmp_path}/values.py:other")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("MetadataResponse.Nothing=1", "version 12 of the new spec does not have this field"),
        ("MetadataResponse", "expected Message.path=value"),
    ],
)
def test_a_value_for_an_unknown_field_is_rejected(text, reason):
    with pytest.raises(OptionError, match=reason):
        plan_new_columns((text,), FORM, has_header=False)


def test_a_value_of_another_type_is_rejected_but_not_for_other_messages():
    with pytest.raises(OptionError, match="ControllerId"):
        make_column("ControllerId", "text")
    assert plan_new_columns(("FetchResponse.X=1",), FORM, has_header=False) == {}


def test_a_header_value_applies_to_the_newest_header_version():
    trace = {"name": "TraceId", "type": "string", "versions": "2+", "taggedVersions": "2+", "tag": 0}
    text = json.loads(to_text(catalog.load_spec("RequestHeader")))
    header = load_message(json.dumps(text | {"fields": [*text["fields"], trace]}))
    value = ("RequestHeader.TraceId=x",)
    form = MessageForm(catalog.load_spec("MetadataRequest"), 12, header)
    assert list(plan_new_columns(value, form, has_header=True)) == ["header.traceId"]
    assert plan_new_columns(value, form._replace(version=8), has_header=True) == {}
    assert plan_new_columns(value, form, has_header=False) == {}
    with pytest.raises(OptionError, match=r"RequestHeader\.Trace: version 2 of the new spec does not have this field"):
        plan_new_columns(("RequestHeader.Trace=x",), form, has_header=True)
    task = TrafficTask((str(Path(__file__).parents[2] / "data" / "captures" / "share-groups-broker43.pcap.zst"),))
    outcome = run_comparison_task(
        ComparisonTask(
            task, ProposalSettings("header", {"RequestHeader": header}, values=("RequestHeader.TraceId=0af7",))
        )
    )
    changed_totals = outcome.sum_totals_by(kind=CHANGED)[()]
    assert changed_totals.messages > 0
    assert (
        changed_totals.saved_bytes == -(1 + 1 + 1 + 4) * changed_totals.messages
    )  # tag, length of the value, its own length, the text
