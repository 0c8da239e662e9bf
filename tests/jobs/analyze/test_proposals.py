"""The layouts of proposals: KIP-636 in place equals the rewritten specs, and both layouts can be read back."""

from __future__ import annotations

import pytest
from tests.protocol.messages.values import make_value

from kafkaframes.errors import OptionError
from kafkaframes.jobs.analyze.proposals import (
    PROPOSALS,
    MessageForm,
    ProposalSettings,
    have_same_bytes,
    list_spec_changes,
)
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.columns import decode_columns, encode_columns
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.kip_636 import rewrite_errors

NAMES = [name for api in catalog.list_apis() for name in (api.request, api.response)]
QUESTION = ProposalSettings("kip-636")


def layouts(proposal, name, version):
    spec = catalog.load_spec(name)
    return list(PROPOSALS[proposal].layouts(MessageForm(spec, version, QUESTION.header_spec(spec.type)), None))


def test_in_place_layout_equals_a_new_version_of_the_rewritten_specs():
    """For every API whose newest version is flexible: the same bytes for a response of defaults, and for errors."""
    report = rewrite_errors({name: catalog.load_spec(name) for name in NAMES})
    checked_count = 0
    for api in report.apis[::4]:
        if api.is_flexible_new or api.version == api.before:
            continue
        new = plan_message(report.specs[api.response], api.version)
        (layout,) = layouts("kip-636", api.response, api.before)
        tagged_plan = plan_message(layout.after.spec, layout.after.version)
        cls = message(api.response)
        errors = {"error_code": 3, "error_message": "no"}
        own = plan_message(cls.spec, api.before).root.fields
        fields = {one.attribute: errors[one.attribute] for one in own if one.attribute in errors}
        for value in (cls(), cls(**fields)):
            array = cls.decode_columns([value.encode(api.before)], api.before)
            assert encode_columns(tagged_plan, array).to_pylist() == encode_columns(new, array).to_pylist(), api
            checked_count += 1
    assert checked_count > 30


@pytest.mark.parametrize("name", NAMES[::8] + NAMES[1::8])
def test_both_layouts_are_read_back_and_one_has_the_sent_bytes(name):
    cls = message(name)
    valid, flexible = cls.spec.valid_versions, cls.spec.flexible_versions
    for version in {valid.lowest, valid.highest, *([] if flexible.is_empty else [flexible.lowest])}:
        values = [make_value(cls, version, seed) for seed in range(2)]
        columns = cls.decode_columns([value.encode(version) for value in values], version)
        (layout,) = layouts("flexible", name, version)
        own = (layout.before, layout.after)[cls.spec.is_flexible(version)]
        assert own.spec is cls.spec
        for form in (layout.before, layout.after):
            plan = plan_message(form.spec, form.version)
            data = encode_columns(plan, columns)
            again = decode_columns(plan, data)
            assert again.field("_error").null_count == len(values), version
            assert encode_columns(plan, again).equals(data)


def test_layouts_are_compared_with_their_headers():
    spec, header = catalog.load_spec("OffsetDeleteResponse"), catalog.load_spec("ResponseHeader")
    own = MessageForm(spec, 0, header)
    new = rewrite_errors({name: catalog.load_spec(name) for name in NAMES}).specs[spec.name]
    assert have_same_bytes(own, MessageForm(new, 0, header))
    assert not have_same_bytes(own, MessageForm(new, 1, header))


def test_spec_changes_are_listed():
    changes = dict(list_spec_changes(QUESTION))
    assert [(one.kind, one.path, one.text) for one in changes["HeartbeatResponse 4 -> 5"]] == [
        ("changed", ("ErrorCode",), "now tag 0")
    ]
    assert changes["HeartbeatRequest 4 -> 5"] == []
    assert not list(list_spec_changes(ProposalSettings("flexible")))


def test_an_unknown_proposal_is_rejected():
    with pytest.raises(OptionError, match="expected kip-636, flexible, tag-header"):
        _ = ProposalSettings("kip-0").proposal
