"""Copies of one partition: equal, lagging, damaged, diverged, of another topic or cluster; and which one is counted."""

import pytest

import kafkaframes

from .conftest import meta, rows, write_segment


@pytest.fixture
def first_copy(tmp_path):
    """Return the folder, the bytes of the first copy, and a function that writes the second one."""
    whole = kafkaframes.build_records(rows(200), batch_bytes=2000, leader_epoch=3)
    write_segment(tmp_path / "one" / "t-0", whole)

    def write(raw, base_offset=0):
        write_segment(tmp_path / "two" / "t-0", raw, base_offset)
        return whole

    return tmp_path, whole, write


def verdicts(report):
    return {copy.directory.split("/")[-2]: copy.verdict for copy in report.copies}


def records(report):
    (topic,) = report.topics
    return topic.records


def test_equal_copies_are_counted_once(first_copy, report_of):
    folder, whole, write = first_copy
    write(whole)
    report = report_of(folder)
    assert verdicts(report) == {"one": "same", "two": "same"}
    assert [copy.leads for copy in report.copies].count(True) == 1
    assert records(report) == 200


def test_a_lagging_copy_is_reported(first_copy, report_of):
    folder, whole, write = first_copy
    fourth = kafkaframes.read_batches(whole).to_pylist()[3]
    write(whole[: fourth["position"]])
    report = report_of(folder)
    assert verdicts(report) == {"one": "same", "two": "behind"}
    assert report.copies[1].end_offset == fourth["base_offset"]
    assert records(report) == 200
    assert report.is_sound


def test_a_copy_that_starts_later_is_reported(first_copy, report_of):
    folder, whole, write = first_copy
    fourth = kafkaframes.read_batches(whole).to_pylist()[3]
    write(whole[fourth["position"] :], fourth["base_offset"])
    report = report_of(folder)
    assert verdicts(report) == {"one": "same", "two": "starts later"}
    assert report.copies[1].start_offset == fourth["base_offset"]
    assert records(report) == 200


def test_a_flipped_bit_in_one_copy_loses_nothing(first_copy, report_of):
    folder, whole, write = first_copy
    raw = bytearray(whole)
    raw[100] ^= 1
    write(bytes(raw))
    report = report_of(folder)
    assert verdicts(report) == {"one": "same", "two": "damaged"}
    assert (records(report), report.losses) == (200, [])
    assert not report.is_sound  # the copy still has an error
    (partition,) = report.partitions
    assert partition.errors == 1


def test_a_flipped_bit_in_the_leading_copy_loses_nothing(first_copy, report_of):
    folder, whole, write = first_copy
    write(whole)
    raw = bytearray(whole)
    raw[100] ^= 1
    (folder / "one" / "t-0" / f"{0:020}.log").write_bytes(raw)
    report = report_of(folder)
    assert verdicts(report) == {"one": "damaged", "two": "same"}
    assert (records(report), report.losses) == (200, [])


def test_records_damaged_in_both_copies_are_lost(first_copy, report_of):
    folder, whole, write = first_copy
    raw = bytearray(whole)
    raw[100] ^= 1
    write(bytes(raw))
    (folder / "one" / "t-0" / f"{0:020}.log").write_bytes(raw)
    report = report_of(folder)
    (loss,) = report.losses
    assert records(report) == 200 - loss.declared
    assert {finding.check for finding in report.findings} >= {"crc", "damaged"}


def test_a_diverged_history_is_reported(first_copy, report_of):
    folder, whole, write = first_copy
    sixth = kafkaframes.read_batches(whole).to_pylist()[5]
    base = sixth["base_offset"]
    head = whole[: sixth["position"]]
    kept_bytes, lost_bytes = (
        kafkaframes.build_records(rows(count, first=base, size=60), base_offset=base, leader_epoch=leader_epoch)
        for count, leader_epoch in ((20, 5), (8, 4))
    )
    (folder / "one" / "t-0" / f"{0:020}.log").write_bytes(head + kept_bytes)
    write(head + lost_bytes)
    report = report_of(folder)
    assert verdicts(report) == {"one": "same", "two": "differs"}
    assert "diverge" in report.copies[1].decided[0]
    assert records(report) == base + 20


def test_another_topic_with_the_same_name_is_distinguished(first_copy, report_of):
    folder, whole, write = first_copy
    write(whole)
    for name, topic_id in (("one", "Yne-gvsoSAKvPkKiJWjLNA"), ("two", "AAAAAAAAAAAAAAAAAAAAAQ")):
        (folder / name / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    report = report_of(folder)
    assert verdicts(report) == {"one": "same", "two": "other topic"}
    assert {copy.topic_id for copy in report.copies} == {"Yne-gvsoSAKvPkKiJWjLNA", "AAAAAAAAAAAAAAAAAAAAAQ"}
    assert (records(report), len(report.partitions)) == (400, 2)


def test_another_cluster_is_distinguished(first_copy, report_of):
    folder, whole, write = first_copy
    write(whole)
    meta(folder / "one", 1)
    (folder / "two" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    report = report_of(folder)
    assert verdicts(report) == {"one": "same", "two": "other cluster"}
    assert records(report) == 400


def test_a_partition_on_two_disks_is_read_completely(first_copy, report_of):
    folder, whole, write = first_copy
    batches = kafkaframes.read_batches(whole).to_pylist()
    middle = batches[len(batches) // 2]
    (folder / "one" / "t-0" / f"{0:020}.log").write_bytes(whole[: middle["position"]])
    write(whole[middle["position"] :], middle["base_offset"])
    report = report_of(folder)
    assert records(report) == 200
    (topic,) = report.topics
    assert topic.size_bytes == topic.disk_bytes == len(whole)


def test_copies_cleaned_up_to_different_offsets_are_reported(first_copy, report_of):
    folder, whole, write = first_copy
    batches = kafkaframes.read_batches(whole).to_pylist()
    for name, upto in (("one", 50), ("two", 150)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {upto}\n")
    write(whole[: batches[1]["position"]] + whole[batches[6]["position"] :])
    report = report_of(folder)
    assert "cleaned" in verdicts(report).values()
    assert report.topics[0].keys.compacted == "cleaner checkpoint"
