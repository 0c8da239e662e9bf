"""A partition whose cleaning was interrupted between the cleaner's renames."""

from kafkaframes.records.build import build_records

OLD_SEGMENTS = {0: range(10), 10: range(10, 20), 20: range(20, 30)}
CLEANED_OFFSETS = range(0, 20, 2)  # the records that remain of the segments 0 and 10


def segment(offsets):
    return b"".join(bytes(build_records({"value": [b"v%d" % at]}, base_offset=at)) for at in offsets)


def name(base, suffix=""):
    return f"{base:020}.log{suffix}"


def write_partition(path):
    """Write a partition of three segments, with one record per batch."""
    path.mkdir(parents=True)
    for base, offsets in OLD_SEGMENTS.items():
        (path / name(base)).write_bytes(segment(offsets))
        (path / name(base).replace(".log", ".index")).write_bytes(b"")


def interrupt_cleaning(path, old, new):
    """Write ``new`` as swap or cleaned files. ``old`` is the state of the replaced segments: there, renamed or gone."""
    for suffix, files in new.items():
        for base, offsets in files.items():
            (path / name(base, suffix)).write_bytes(segment(offsets))
    for base in (0, 10) if old != "there" else ():
        for file in (path / name(base), path / name(base).replace(".log", ".index")):
            file.rename(f"{file}.deleted") if old == "deleted" else file.unlink()
