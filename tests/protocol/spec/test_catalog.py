"""The catalog: complete, lazy, and consistent with the rules and with Kafka's table of headers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec import Versions, catalog, load_message
from kafkaframes.protocol.spec.catalog.reading import ABOUT_FILE, MESSAGES_FOLDER
from kafkaframes.protocol.spec.evolution import walk_fields


def test_every_message_satisfies_the_rules():
    for name in catalog.list_names():
        text = (MESSAGES_FOLDER / f"{name}.json").read_bytes()
        assert load_message(text, file=name) == catalog.load_spec(name)


def test_the_index_equals_the_files():
    for name in catalog.list_names():
        spec, outline = catalog.load_spec(name), catalog.find_entry(name).outline
        for attribute in ("type", "api_key", "valid_versions", "flexible_versions", "listeners", "name"):
            assert getattr(spec, attribute) == getattr(outline, attribute), name


def test_apis_have_all_versions_from_zero_except_listed_ones():
    apis = catalog.list_apis()
    assert [api.key for api in apis] == list(range(len(apis)))
    assert len(apis) == 95
    # Versions that never left early access, or whose first versions no published release used, start higher.
    assert {api.name: api.versions.lowest for api in apis if api.versions.lowest} == {}


def test_an_api_is_found_by_key_and_by_its_current_name():
    apis = catalog.list_apis()
    assert [catalog.find_api(api.key) for api in apis] == [catalog.find_api(api.name) for api in apis] == [*apis]
    for unknown in (len(apis), -1, "metadata", "MetadataRequest", "ListOffset"):  # ListOffset was renamed
        with pytest.raises(SpecError, match=f"unknown API {unknown!r}"):
            catalog.find_api(unknown)


def test_looking_up_an_api_does_not_load_the_others():
    code = (
        "from kafkaframes.protocol.spec import catalog\n"
        "from kafkaframes.protocol.spec.catalog import reading\n"
        "assert catalog.find_api(3) is catalog.find_api('Metadata')\n"
        "print(reading.find_entry.cache_info().currsize)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(output) < 30


def test_removed_versions_exist_and_are_marked():
    produce = catalog.find_api("Produce")
    assert (str(produce.versions), str(produce.current_versions), produce.flexible_since) == ("0-13", "3-13", 9)
    removed_api = catalog.find_api(4)
    assert (removed_api.name, str(removed_api.versions), removed_api.current_versions.is_empty) == (
        "LeaderAndIsr",
        "0-7",
        True,
    )
    assert catalog.find_api(56).name == "AlterPartition"
    assert catalog.load_spec("AlterIsrRequest").api_key == 56


def test_header_versions_equal_those_of_kafka():
    assert catalog.find_api("ControlledShutdown").header_versions[0] == (0, 0)
    assert catalog.find_api("ApiVersions").header_versions[3] == (2, 0)
    assert catalog.find_api("Metadata").header_versions[9] == (2, 1)


def test_coordinator_records_have_keys_and_values():
    keys = {
        kind: spec.name for kind, spec in catalog.list_records("kafka-group-coordinator") if spec.type.endswith("key")
    }
    assert keys[1] == "OffsetCommitKey"
    assert keys[2] == "GroupMetadataKey"
    key = catalog.load_spec("GroupMetadataKey")
    assert [key.canonical_version(version) for version in (0, 1, 2)] == [0, 1, 0]
    assert next(catalog.list_records("kafka-metadata"))[1].name == "RegisterBrokerRecord"


def test_an_error_for_an_unknown_name_suggests_the_nearest():
    with pytest.raises(SpecError, match="MetadataRequest"):
        catalog.load_spec("metadata")
    with pytest.raises(SpecError, match="unknown API"):
        catalog.find_api(9999)


def test_loading_a_message_reads_no_other(monkeypatch):
    read, read_bytes = [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or read_bytes(path))
    assert catalog.load_spec.__wrapped__("MetadataResponse").name == "MetadataResponse"
    assert [name for name in read if name.endswith("Response.json")] == ["MetadataResponse.json"]
    assert len(read) <= 2  # the other read is the table of messages, unless it was read before


def test_the_catalog_imports_no_large_library():
    code = "import sys; from kafkaframes.protocol.spec import catalog; catalog.load_spec('MetadataResponse')"
    code += "; print(*sys.modules)"
    loaded_modules = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"numba", "numpy", "pyarrow", "pyspark", "click", "rich"} & set(loaded_modules)


def test_versions_have_their_bounds():
    assert catalog.find_entry("FetchRequest").current_versions == Versions(4, 18)
    assert catalog.newest_release() == "4.4.0"


def test_every_api_and_field_has_one_description():
    assert [
        api.name
        for api in catalog.list_apis()
        if not catalog.find_description(api.request) or not catalog.find_description(api.response)
    ] == []
    table = json.loads(ABOUT_FILE.read_bytes())
    known_subjects = {one for name in catalog.list_names() for one in (name, name.removesuffix("Request"))}
    assert table["messages"].keys() - known_subjects == set()
    fields = {field.name for name in catalog.list_names() for _, field in walk_fields(catalog.load_spec(name))}
    assert table["fields"].keys() - fields == set()
