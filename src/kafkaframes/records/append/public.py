"""The public function of this package; it imports what it needs when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.records.append import Appended, AppendSettings

_LARGEST_START = 2**63 - 2**32  # offsets of one append never reach 2^63 from here


def validate_and_assign(
    records: bytes | bytearray | memoryview, offset: int, settings: AppendSettings | None = None, **named: Any
) -> Appended:
    """Check records as a broker does that is asked to append them, and give them offsets from ``offset`` on (KIP-31).

    Args:
        records: batches back to back, as in a produce request: one batch of format 2, or one compressed set; any
            number of uncompressed messages of formats 0 and 1.
        offset: the log end offset.
        settings: the topic's settings, the clock, and who sends; Kafka's defaults.
        named: settings by name, which replace those: ``record_format``, ``codec``, ``now_ms``, ...

    Raises:
        AppendRefusedError: as Kafka refuses: ``code``, ``exception``, ``record_errors``, ``valid_bytes``.
        OptionError: a setting does not exist, or the offset cannot be a log end offset.
    """
    from dataclasses import fields, replace

    from kafkaframes.records.append import AppendSettings, validate_and_assign

    if not 0 <= offset <= _LARGEST_START:
        raise OptionError(f"{offset} cannot be a log end offset")
    known = [field.name for field in fields(AppendSettings)]
    if unknown := [name for name in named if name not in known]:
        raise OptionError(f"no setting {', '.join(unknown)}; there are {', '.join(known)}")
    return validate_and_assign(records, offset, replace(settings or AppendSettings(), **named))
