"""``kafkaframes spec diff``."""

import json

from tests.cli.calling import ask_spec as run


def test_diff_shows_changed_fields():
    out = run("diff", "MetadataRequest", "8", "10")
    assert "+ Topics.TopicId: uuid" in out
    assert "~ Topics.Name: now nullable" in out
    assert "inflexible -> flexible" in out
    assert "the same bytes" in run("diff", "ProduceRequest", "5", "6")
    row = json.loads(run("diff", "FetchRequest", "14", "15", "--json").splitlines()[0])
    assert row == {"message": "FetchRequest", "kind": "added", "field": "ReplicaState", "change": "ReplicaState, tag 1"}
