"""The tag registry contains the tags of all releases, and proposals that use one of these tags are reported."""

from dataclasses import replace

from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.catalog.ledgers import (
    declared_tags,
    find_collisions,
    make_tag_registry,
    make_tags_ledger,
    next_free_tags,
    read_tags,
)
from kafkaframes.protocol.spec.model import FieldSpec, FieldType
from kafkaframes.protocol.spec.versions import MAX_VERSION, Versions

ALL_VERSIONS = Versions(0, MAX_VERSION)


def build_proposal(name, struct="", **tags):
    """Return a message of the catalog with additional tagged fields, each given as ``name=(tag, type)``."""
    spec = catalog.load_spec(name)
    fields = tuple(
        FieldSpec(
            name=field, type=FieldType(kind), versions=ALL_VERSIONS, default=0, tag=tag, tagged_versions=ALL_VERSIONS
        )
        for field, (tag, kind) in tags.items()
    )
    if struct:
        longer = replace(spec.structs[struct], fields=(*spec.structs[struct].fields, *fields))
        return replace(spec, structs={**spec.structs, struct: longer})
    return replace(spec, struct=replace(spec.struct, fields=(*spec.struct.fields, *fields)))


def test_every_tag_of_the_catalog_has_its_first_release():
    tags = [tag for name in catalog.list_names() for tag in declared_tags(catalog.load_spec(name))]
    assert [tag._replace(since=None, before=()) for tag in make_tag_registry().values()] == tags
    assert all(tag.since for tag in make_tag_registry().values())


def test_a_tag_can_be_newer_than_its_version():
    """ApiVersions 3 was added in 2.4, three of its tags in 2.7, and one in 3.4."""
    since = [make_tag_registry()["ApiVersionsResponse", "ApiVersionsResponse", number].since for number in range(4)]
    assert since == ["2.7.2", "2.7.2", "2.7.2", "3.4.1"]


def test_a_field_that_was_renamed_keeps_its_tag_and_its_names():
    assert make_tag_registry()["PartitionRecord", "PartitionRecord", 2].before == (("LastKnownELR", "3.7.2"),)
    old = build_proposal("PartitionRecord")
    assert list(find_collisions({"mine": [old]})) == []


def test_a_tag_of_a_release_is_a_collision_but_the_next_free_tag_is_not():
    taken_tag, free = build_proposal("VoteResponse", Mood=(0, "int8")), build_proposal("VoteResponse", Mood=(1, "int8"))
    (clash,) = find_collisions({"mine": [taken_tag]})
    assert (clash.tag.field, clash.text) == (
        "Mood",
        "NodeEndpoints ([]NodeEndpoint) has had this tag since 3.9.1; 1 is the next free tag",
    )
    assert list(find_collisions({"mine": [free]})) == []


def test_each_struct_has_its_own_tags():
    own = build_proposal("CreateTopicsResponse", "CreatableTopicResult", Mood=(1, "int8"))
    assert list(find_collisions({"mine": [own]})) == []
    assert next_free_tags(make_tag_registry().values())["CreateTopicsResponse", "CreatableTopicResult"] == 1


def test_two_proposals_with_one_tag_collide():
    mine, theirs = (build_proposal("VoteResponse", **{name: (1, "int8")}) for name in ("Mood", "Weather"))
    (clash,) = find_collisions({"KIP-1": [mine], "KIP-2": [theirs]})
    assert (clash.tag.field, clash.text) == ("Weather", "KIP-1 also uses it, for Mood (int8)")
    assert list(find_collisions({"KIP-1": [mine], "KIP-2": [mine]})) == []


def test_the_ledger_keeps_the_first_release_of_each_name():
    spec = build_proposal("VoteResponse", Mood=(1, "int8"))
    renamed_field = build_proposal("VoteResponse", Humour=(1, "int8"))
    ledger = make_tags_ledger([("1.0.0", spec), ("1.1.0", spec), ("1.2.0", renamed_field)])
    assert ledger["VoteResponse"]["VoteResponse"]["1"] == [["Mood", "1.0.0"], ["Humour", "1.2.0"]]
    assert read_tags()["VoteResponse"]["VoteResponse"]["0"] == [["NodeEndpoints", "3.9.1"]]
