"""Kernels sent with a Spark session: the archive, and where a worker finds it (tests/interop: a cluster)."""

import sys
import zipfile
from types import SimpleNamespace

import pytest

from kafkaframes.kernels import demand
from kafkaframes.kernels import directories as places
from kafkaframes.spark.sessions import builder, worker_files


class ArchiveContext:
    """A fake SparkContext with the attributes that shipping the package uses."""

    def __init__(self, master="spark://host:7077"):
        self.master = master
        self.listArchives = []

    def addArchive(self, path):  # noqa: N802
        self.listArchives.append(path)


def session(master="spark://host:7077", **settings):
    return SimpleNamespace(sparkContext=ArchiveContext(master), conf=settings)


def test_the_archive_has_every_compiled_unit_and_is_sent_once():
    spark = session()
    if not [unit for unit in demand.list_kernel_units() if unit.file is not None and unit.file.is_file()]:
        pytest.skip("nothing is compiled on this machine")
    assert worker_files.ship_kernels(spark)
    assert worker_files.ship_kernels(spark)
    (sent_archive,) = spark.sparkContext.listArchives
    path, _, name = sent_archive.partition("#")
    assert name == worker_files.ARCHIVE_NAME
    with zipfile.ZipFile(path) as archive:
        assert set(archive.namelist()) <= {places.file_name(module) for module in demand.list_kernel_modules()}
        assert archive.namelist()


def test_the_archive_is_not_sent_if_disabled():
    spark = session(**{worker_files.SHIP_KERNELS_SETTING: "false"})
    assert not worker_files.ship_kernels(spark)
    assert not spark.sparkContext.listArchives


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_local_executors_are_sent_nothing(master):
    spark = session(master)
    builder._ship_kernels_to_cluster(spark)
    assert not spark.sparkContext.listArchives


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """A Python worker of Spark, simulated."""
    files = SimpleNamespace(_is_running_on_worker=True, getRootDirectory=lambda: str(tmp_path))
    monkeypatch.setitem(sys.modules, "pyspark.core.files", SimpleNamespace(SparkFiles=files))
    places.clear_caches()
    yield files
    monkeypatch.undo()
    places.clear_caches()


def test_a_worker_searches_the_directory_of_the_unpacked_archive(worker, tmp_path):
    assert all(place.source != "files of the Spark job" for place in places.list_folders())
    (tmp_path / worker_files.ARCHIVE_NAME).mkdir(mode=0o755)
    places.clear_caches()
    (folder,) = [place for place in places.list_folders() if place.source == "files of the Spark job"]
    assert folder.folder == tmp_path / worker_files.ARCHIVE_NAME
    assert folder.distrust is None
    (tmp_path / worker_files.ARCHIVE_NAME).chmod(0o777)
    places.clear_caches()
    (folder,) = [place for place in places.list_folders() if place.source == "files of the Spark job"]
    assert "0777" in folder.distrust


def test_a_driver_does_not_search_it(worker):
    worker._is_running_on_worker = False
    assert worker_files.find_unpacked_archive() is None
