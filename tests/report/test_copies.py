"""Copies of one partition: same, behind, damaged, diverged, another topic."""

import pytest

import kafkaframes

from .conftest import rows, write_segment


@pytest.fixture
def two(tmp_path):
    """Return a function that writes a second copy and returns what the report says of both."""
    whole = kafkaframes.build_records(rows(200), batch_bytes=2000, leader_epoch=3)
    write_segment(tmp_path / "one" / "t-0", whole)

    def write(raw, base_offset=0):
        write_segment(tmp_path / "two" / "t-0", raw, base_offset)
        return whole

    return tmp_path, whole, write


def verdicts(report):
    return [(one.directory.split("/")[-2], one.verdict) for one in report.copies]


def test_a_copy_that_lags(two, report_of):
    folder, whole, write = two
    batches = kafkaframes.read_batches(whole).to_pylist()
    write(whole[: batches[3]["position"]])
    report = report_of(folder)
    assert verdicts(report) == [("one", "same"), ("two", "behind")]
    assert report.copies[1].end_offset == batches[3]["base_offset"]
    assert report.topics[0].records == 200


def test_a_copy_that_starts_later_is_the_same_as_far_as_both_go(two, report_of):
    folder, whole, write = two
    third = kafkaframes.read_batches(whole).to_pylist()[3]
    write(whole[third["position"] :], third["base_offset"])
    report = report_of(folder)
    assert {verdict for _, verdict in verdicts(report)} == {"same"}
    assert {one.start_offset for one in report.copies} == {0, third["base_offset"]}


def test_a_flipped_bit_in_the_measured_copy_and_a_sound_one_beside_it(two, report_of):
    folder, whole, write = two
    raw = bytearray(whole)
    raw[100] ^= 1
    write(bytes(whole))
    (folder / "one" / "t-0" / f"{0:020}.log").write_bytes(raw)
    report = report_of(folder)
    assert verdicts(report) == [("one", "damaged"), ("two", "sound")] or verdicts(report) == [
        ("two", "same"), ("one", "damaged"),
    ]  # fmt: skip


def test_a_history_that_diverged(two, report_of):
    folder, whole, write = two
    fifth = kafkaframes.read_batches(whole).to_pylist()[5]
    other = kafkaframes.build_records(
        rows(8, first=fifth["base_offset"], size=60), base_offset=fifth["base_offset"], leader_epoch=2
    )
    write(whole[: fifth["position"]] + other)
    found = report_of(folder).copies[1]
    assert (found.verdict, found.first_difference) == ("differs", fifth["base_offset"])
    assert found.only_here == 1
    assert found.only_there >= 1


def test_a_leader_epoch_alone(two, report_of):
    folder, whole, write = two
    raw = bytearray(whole)
    raw[15] = 4  # outside the CRC
    write(bytes(raw))
    found = report_of(folder).copies[1]
    assert (found.verdict, found.other_epochs) == ("same", 1)


def test_another_topic_under_the_same_name(two, report_of):
    folder, whole, write = two
    write(whole)
    for name, topic_id in (("one", "Yne-gvsoSAKvPkKiJWjLNA"), ("two", "AAAAAAAAAAAAAAAAAAAAAQ")):
        (folder / name / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    assert verdicts(report_of(folder))[1][1] == "other topic"


def test_cleaned_at_another_time(two, report_of):
    folder, whole, write = two
    sixth = kafkaframes.read_batches(whole).to_pylist()[6]
    write(whole[sixth["position"] :])
    (folder / "one" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 50\n")
    head = whole[: kafkaframes.read_batches(whole).to_pylist()[1]["position"]]
    write(head + whole[sixth["position"] :])
    assert report_of(folder).copies[1].verdict == "cleaned"
