"""The room's functions: the short way at hand, the rest imported when it is needed.

A broker that is started answers its first requests without the decoder, the builder and Arrow: most appends never need
them.
"""

from __future__ import annotations

from kafkaframes.append.fast import take
from kafkaframes.append.result import Appended, DownConverted
from kafkaframes.append.settings import AppendSettings


def validate_and_assign(
    records: bytes | bytearray | memoryview, offset: int, settings: AppendSettings | None = None
) -> Appended:
    """Check ``records`` as a broker does that is asked to append them, and give them offsets from ``offset`` on.

    Args:
        records: batches back to back (the records field of a produce request); a part of a batch at the end is cut.
        offset: the log end offset.
        settings: the topic's settings, the clock, and who sends.

    Raises:
        AppendRefusedError: as Kafka refuses; ``valid_bytes`` says how far the batches are intact.
    """
    settings = settings or AppendSettings()
    appended = take(bytes(records), offset, settings)
    if appended is not None:
        return appended
    from kafkaframes.append.validator import validate_closely

    return validate_closely(records, offset, settings)


def down_convert(records: bytes | bytearray | memoryview, magic: int, *, first_offset: int = 0) -> DownConverted:
    """Write batches of a later format than ``magic`` (0 or 1) in it; offsets, keys, values and codecs stay.

    Args:
        records: batches back to back.
        magic: the format to write.
        first_offset: records below it may be left out of uncompressed batches, as for a fetch from there.

    Raises:
        AppendRefusedError: as Kafka refuses: zstd, or records that cannot be read.
    """
    from kafkaframes.append.down_convert import convert_down

    return convert_down(records, magic, first_offset=first_offset)
