"""``spec tags``: the registry and a proposal."""

import json

from tests.cli.calling import ask_spec as run

from kafkaframes.protocol.spec.catalog.reading import MESSAGES_FOLDER


def test_the_registry_is_printed_as_table_and_json():
    rows = [json.loads(line) for line in run("tags", "ApiVersions", "--json").splitlines()]
    assert [(row["number"], row["field"], row["since"]) for row in rows][:1] == [(0, "SupportedFeatures", "2.7.2")]
    assert "4 tags" in run("tags", "apiversions")


def test_a_proposal_with_a_used_tag_fails_and_a_free_tag_is_suggested(tmp_path):
    """The proposal comes from a fork that omits a tag of a release and uses its number for another field."""
    spec = json.loads((MESSAGES_FOLDER / "ApiVersionsResponse.json").read_text())
    own = [one for one in spec["fields"] if one["name"] != "ZkMigrationReady"]
    mood = {"name": "Mood", "type": "int8", "versions": "3+", "tag": 3, "taggedVersions": "3+"}
    path = tmp_path / "ApiVersionsResponse.json"
    path.write_text(json.dumps(spec | {"fields": [*own, mood]}))
    output = run("tags", "--specs", str(path), status=1)
    clash = (
        "ApiVersionsResponse tag 3 (Mood): ZkMigrationReady (bool) has had this tag since 3.4.1; 4 is the next free tag"
    )
    assert clash in output.replace("\n", " ")
    (mine,) = [line for line in output.splitlines() if "Mood" in line and "int8" in line]
    assert "3.4.1" not in mine  # the release uses the number for another field
    path.write_text(json.dumps(spec | {"fields": [*spec["fields"], mood | {"tag": 4}]}))
    assert "5 tags" in run("tags", "--specs", str(path))
