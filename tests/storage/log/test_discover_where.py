"""The file system that a path is read from."""

from kafkaframes.storage.files.filesystem import FsspecFileSystem, LocalFileSystem
from kafkaframes.storage.log.discover import find_filesystem, to_object_path, to_view_path
from kafkaframes.storage.tiered.filesystem import TieredFileSystem

FOLDER = "orders-AAAAAAAAAAAAAAAAAAAAAQ/0/00000000000000000007-AAAAAAAAAAAAAAAAAAAAAQ"
VIEW = f"s3://bucket/{FOLDER}!/orders-0/00000000000000000007.log"


def test_a_path_is_the_disks_and_a_url_its_stores():
    assert isinstance(find_filesystem("/logs/orders-0"), LocalFileSystem)
    assert isinstance(find_filesystem("file:///logs"), LocalFileSystem)
    assert find_filesystem("s3://bucket/logs", options={"anon": True}) == FsspecFileSystem("s3", {"anon": True})


def test_a_view_path_is_shown_over_the_store_that_has_the_objects_and_key_files_are_not_the_stores():
    filesystem = find_filesystem(VIEW, options={"anon": True, "key_files": ("a.pem",)})
    assert isinstance(filesystem, TieredFileSystem)
    assert (filesystem.inner, filesystem.key_files) == (FsspecFileSystem("s3", {"anon": True}), ("a.pem",))


def test_the_mark_of_a_view_in_another_path_means_nothing():
    assert isinstance(find_filesystem("/odd!/name"), LocalFileSystem)


def test_view_paths_are_converted_to_objects_and_other_paths_are_unchanged():
    assert to_object_path(VIEW) == f"s3://bucket/{FOLDER}.log"
    for path in ("/logs/orders-0/00000000000000000007.log", "/odd!/name"):
        assert to_object_path(path) == to_view_path(path) == path
