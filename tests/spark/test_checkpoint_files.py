"""Checkpoint files read and written through Spark's file systems, with Hadoop's checksum files."""

import pytest

from kafkaframes.spark.progress.checkpoint_files import ConnectFiles, get_checkpoint_files

pytestmark = pytest.mark.spark


def test_files_are_read_and_written_with_checksums(spark, tmp_path):
    files = get_checkpoint_files(spark, f"{tmp_path}/checkpoint/")
    assert files.path == f"file:{tmp_path}/checkpoint"
    assert (files.read_text("offsets/3"), files.list_names("offsets")) == (None, [])
    for text in ("first", "v1\n{}\n\u00e9"):
        files.write_text("offsets/3", text)
        assert files.read_text("offsets/3") == text
    assert files.list_names("offsets") == ["3"]
    assert (tmp_path / "checkpoint" / "offsets" / ".3.crc").exists()
    # local paths that do not need the session's JVM
    assert ConnectFiles(spark, files.path).read_text("offsets/3") == text
