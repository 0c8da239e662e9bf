"""``spec tags``: the registry and a proposal."""

import json

from tests.cli.calling import ask_spec as run

from kafkaframes.protocol.spec.catalog.reading import MESSAGES_FOLDER


def test_the_registry_as_a_table_and_as_json():
    rows = [json.loads(line) for line in run("tags", "ApiVersions", "--json").splitlines()]
    assert [(row["number"], row["field"], row["since"]) for row in rows][:1] == [(0, "SupportedFeatures", "2.7.2")]
    assert "4 tags" in run("tags", "apiversions")


def test_a_proposal_that_takes_a_tag_fails_and_says_which_is_free(tmp_path):
    """A fork that left out a tag of a release, and gives its number to another field."""
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
    assert "3.4.1" not in mine  # the release that has the number has another field
    path.write_text(json.dumps(spec | {"fields": [*spec["fields"], mood | {"tag": 4}]}))
    assert "5 tags" in run("tags", "--specs", str(path))
