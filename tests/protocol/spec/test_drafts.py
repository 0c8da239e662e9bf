"""Drafts of proposals: fields are selected, tagged, removed and added, and old versions keep their layout."""

from __future__ import annotations

import pytest

from kafkaframes.errors import SpecError
from kafkaframes.protocol.messages import class_of
from kafkaframes.protocol.spec import catalog, load_message
from kafkaframes.protocol.spec.drafts import Kip, MessageDraft
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.kip_636 import rewrite_errors

SPECS = {name: catalog.load_spec(name) for api in catalog.list_apis() for name in (api.request, api.response)}
ERRORS = {("ErrorCode", "int16"), ("ErrorMessage", "string")}
EXCLUDED_APIS = ("SaslHandshake", "ApiVersions")  # KAFKA-9577, KIP-511


def test_kip_636_in_a_few_lines():
    """The page on proposals shows the rewrite's result."""
    kip = Kip(SPECS)
    for field in kip.fields("*Response.*"):
        if (field.name, field.type) in ERRORS and field.api not in EXCLUDED_APIS and field.can_be_tagged:
            field.tag()
    assert kip.build_specs() == rewrite_errors(SPECS).specs


def test_fields_are_added_and_removed_and_an_api_version_is_added():
    kip = Kip(SPECS)
    kip.add("MetadataResponse.Topics.Owner", "string", nullable=True, default="null", about="Who owns it.")
    kip.add("MetadataRequest.Wish", "int32", tagged=True, default="-1")
    (rack,) = kip.fields("FetchRequest.RackId")
    rack.drop()
    kip.bump("Heartbeat")
    after = kip.build_specs()
    changed_names = {name for name, spec in after.items() if spec != SPECS[name]}
    assert changed_names == {
        f"{api}{half}" for api in ("Metadata", "Fetch", "Heartbeat") for half in ("Request", "Response")
    }
    for name in changed_names:
        load_message(to_text(after[name]))
    metadata = class_of(after["MetadataResponse"])
    topic = metadata.MetadataResponseTopic(name="t", owner="me")
    assert metadata(topics=[topic]).size(14) == metadata(topics=[topic.replace(owner=None)]).size(14) + 2
    assert after["MetadataRequest"].struct.field("Wish").tag == 0
    assert not after["FetchRequest"].struct.field("RackId").is_present(19)
    assert SPECS["HeartbeatRequest"].valid_versions.highest + 1 == after["HeartbeatRequest"].valid_versions.highest


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda kip: kip.add("Nothing.X", "int8"), "no such message"),
        (lambda kip: kip.add("MetadtaResponse.X", "int8"), r"no such message; did you mean MetadataResponse\b"),
        (
            lambda kip: kip.add("MetadataResponse.X", "strng"),
            r"type 'strng' is unknown; did you mean string\? expected one",
        ),
        (lambda kip: kip.add("MetadataResponse.X", "[]Topic"), r"type '\[\]Topic' is unknown; expected one of bool"),
        (lambda kip: kip.add("MetadataResponse.Topcs.X", "int8"), r"no struct Topcs; did you mean Topics\b"),
        (lambda kip: kip.bump("Heartbat"), r"unknown API 'Heartbat'; did you mean Heartbeat\b"),
        (
            lambda kip: kip.fields("FetchRequest.RackIdd"),
            r"unknown field 'FetchRequest.RackIdd'; did you mean FetchRequest.RackId\b",
        ),
        (lambda kip: kip.fields("FetchReqest.*"), r"no such message; did you mean FetchRequest\b"),
        (lambda kip: kip.fields("*", type="int61"), r"type 'int61' is unknown; did you mean int64 or int16"),
        (lambda kip: kip.add("MetadataResponse.Name.X", "int8"), "has no struct Name"),
        (lambda kip: kip.add("MetadataResponse.Topics.Name", "int8"), "already exists"),
        (lambda kip: kip.fields("ProduceResponse.NodeEndpoints")[0].tag(), "it already has tag 0"),
        (lambda kip: kip.fields("ProduceResponse.NodeEndpoints")[0].drop(), "is already tagged"),
        (lambda kip: kip.fields("MetadataResponse.Topics.Name")[0].tag(), "a key cannot be tagged"),
    ],
)
def test_invalid_changes_are_rejected(change, reason):
    with pytest.raises(SpecError, match=reason):
        change(Kip(SPECS))


def test_patterns_can_select_nothing():
    kip = Kip(SPECS)
    assert kip.fields("*Nothing*") == []
    assert kip.fields("FetchRequest.RackId", type="int8") == []
    assert kip.fields("*", type="[]*")
    assert kip.fields("*", type="[]int32")


def test_a_draft_with_an_older_start_version_does_not_change_the_valid_versions():
    draft = MessageDraft(SPECS["HeartbeatResponse"], 4, 4)
    (code,) = (at for at in draft.list_fields() if at.field.name == "ErrorCode")
    assert draft.tag_field(code).tag == 0
    assert str(draft.build_spec().valid_versions) == "0-4"
