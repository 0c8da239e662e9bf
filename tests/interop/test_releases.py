"""The table of releases equals the published classes of a few releases, each of which requires a start of Java."""

from __future__ import annotations

import pytest
from tests.interop.releases import NOT_SERVED, RELEASES, read_versions

from kafkaframes.protocol.spec.releases import find_release, list_releases


def test_the_table_has_every_release_of_the_script():
    assert list_releases() == RELEASES


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "2.8.2", "3.9.1", "4.0.0", "4.0.1", "4.4.0"])
def test_versions_of_the_published_classes_are_in_the_table(version):
    rows = {row.key: row for row in read_versions(version)}
    release_apis = find_release(version).all_apis
    assert release_apis.keys() == rows.keys()
    for key, one in release_apis.items():
        version_ranges = [
            f"{versions.lowest}-{versions.highest}" for versions in (one.accepted_versions, one.advertised_versions)
        ]
        assert version_ranges == [rows[key].accepted, rows[key].advertised or rows[key].accepted], key
        assert ",".join(one.listeners) == rows[key].listeners
    assert not any((version, key) in NOT_SERVED for key in release_apis)
