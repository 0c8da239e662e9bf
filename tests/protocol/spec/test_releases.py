"""The table of releases: properties that its users rely on, and the lookup by name."""

from __future__ import annotations

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.releases import LISTENERS, find_release, list_releases
from kafkaframes.protocol.spec.versions import Versions

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, API_VERSIONS = 0, 1, 2, 3, 8, 9, 11, 18


def list_ranges(name, key):
    one = find_release(name).all_apis[key]
    return str(one.accepted_versions), str(one.advertised_versions)


@pytest.mark.parametrize(
    ("name", "key", "accepted_range", "advertised_range"),
    [
        ("0.8.2", PRODUCE, "0", "0"),
        ("0.8.2", OFFSET_COMMIT, "0-1", "0-1"),
        ("0.9", OFFSET_COMMIT, "0-2", "0-2"),
        ("0.10.0", FETCH, "0-2", "0-2"),
        ("0.10.2", FETCH, "0-3", "0-3"),
        ("0.11", PRODUCE, "0-3", "0-3"),
        ("2.1", FETCH, "0-10", "0-10"),
        ("3.9.1", PRODUCE, "0-11", "0-11"),
        ("4.0.0", PRODUCE, "3-12", "0-12"),  # KAFKA-18659
        ("4.3", PRODUCE, "3-13", "0-13"),
        ("4.0.0", JOIN_GROUP, "2-9", "2-9"),
        ("4.0.1", JOIN_GROUP, "0-9", "0-9"),  # KAFKA-19444
        ("4.1.0", JOIN_GROUP, "0-9", "0-9"),
        ("4.0", FETCH, "4-17", "4-17"),
        ("4.0", LIST_OFFSETS, "1-10", "1-10"),
        ("4.0", METADATA, "0-13", "0-13"),
    ],
)
def test_ranges_that_kafka_is_known_for(name, key, accepted_range, advertised_range):
    assert list_ranges(name, key) == (accepted_range, advertised_range)


def test_only_produce_is_advertised_below_the_accepted_versions():
    """Therefore, only this API detects code that confuses advertised and accepted versions."""
    differ = {
        (name, key)
        for name in list_releases()
        for key, one in find_release(name).all_apis.items()
        if one.accepted_versions != one.advertised_versions
    }
    assert {key for _, key in differ} == {PRODUCE}
    assert {name for name, _ in differ} == {name for name in list_releases() if name.startswith("4.")}


def test_brokers_before_0_10_do_not_support_api_versions():
    assert [name for name in list_releases() if 18 not in find_release(name).apis_of_listener()] == [
        "0.8.2.2",
        "0.9.0.1",
    ]


def test_the_newest_release_equals_the_catalog():
    newest = find_release(catalog.newest_release())
    for api in catalog.list_apis():
        stable = api.current_versions
        if api.is_latest_unstable:
            stable = Versions(stable.lowest, stable.highest - 1)
        ours = newest.all_apis.get(api.key)
        assert (ours.accepted_versions if ours else Versions.NONE) == stable or stable.is_empty, api.name


def test_the_catalog_has_every_version_of_every_release():
    for name in list_releases():
        for key, one in find_release(name).all_apis.items():
            assert catalog.find_api(key).versions.covers(one.accepted_versions), (name, key)
            assert set(one.listeners) <= set(LISTENERS)
            assert set(one.deprecated_versions) <= set(one.accepted_versions)


def test_each_listener_serves_its_apis():
    assert 4 in find_release("3.2").apis_of_listener()  # LeaderAndIsr, which a ZooKeeper controller sends
    assert 4 not in find_release("3.9").apis_of_listener()
    assert 4 in find_release("3.9").apis_of_listener("zk_broker")
    assert 52 in find_release("3.9").apis_of_listener("controller")  # Vote
    with pytest.raises(OptionError, match="expected zk_broker"):
        find_release("3.9").apis_of_listener("nobody")


def test_deprecated_versions_are_those_removed_in_4_0():
    before, after = find_release("3.9"), find_release("4.0.0")
    for key, one in before.all_apis.items():
        accepted_again = [version for version in one.deprecated_versions if after.accepts(key, version)]
        assert accepted_again == [], key
    assert before.all_apis[PRODUCE].deprecated_versions == (0, 1, 2)


@pytest.mark.parametrize(
    ("name", "expected_name"),
    [("4.3", "4.3.1"), ("4.3.0", "4.3.1"), ("4.0", "4.0.1"), ("4.0.0", "4.0.0"), ("0.10", "0.10.2.2"),
     ("0.8.2", "0.8.2.2"), ("0.8.2.0", "0.8.2.2"), ("0.9", "0.9.0.1"), ("1.0", "1.0.2"), ("2.8.2", "2.8.2"),
     ("4.4.0", "4.4.0")],
)  # fmt: skip
def test_a_line_is_its_last_release_and_a_patch_that_is_not_there_the_next_one(name, expected_name):
    assert find_release(name).name == expected_name


@pytest.mark.parametrize(
    "name",
    ["", "5.0", "4", "4.3.9", "0.7", "0.8.1", "4.x", "latest", "4..1", "4.3.1.1", "-4.3", "9" * 5000 + ".1", "٤.٣"],
)
def test_an_error_for_an_unknown_release_lists_the_known_ones(name):
    with pytest.raises(OptionError, match=r"0\.8\.2\.2, .*4\.4\.0"):
        find_release(name)
