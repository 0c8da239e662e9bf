"""A disk that reads a directory and writes into memory keeps the files that it reads open, up to a limit."""

from __future__ import annotations

from contextlib import contextmanager

from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.memory_disk import MAX_OPEN_FILES, OverlayDisk


class CountingStore(LocalFileSystem):
    """A local file system that counts opened and closed files."""

    open_count = close_count = 0

    @contextmanager
    def open(self, path):
        CountingStore.open_count += 1
        with super().open(path) as read_at:
            yield read_at
        CountingStore.close_count += 1


def test_a_file_read_in_pieces_is_opened_once(tmp_path):
    CountingStore.open_count = CountingStore.close_count = 0
    count = MAX_OPEN_FILES + 2
    for number in range(count):
        (tmp_path / f"{number:02}").write_bytes(b"%02d" % number * 50)
    disk = OverlayDisk(CountingStore())
    files = [disk.open_file(str(tmp_path / f"{number:02}")) for number in range(count)]
    for number, file in enumerate(files):
        assert [file.read(position, 10) for position in range(0, 100, 10)] == [b"%02d" % number * 5] * 10
    assert (CountingStore.open_count, CountingStore.close_count) == (count, 2)
    files[0].write(50, b"!")
    assert files[0].read(48, 4) == b"00!0"
    assert (tmp_path / "00").read_bytes() == b"00" * 50
