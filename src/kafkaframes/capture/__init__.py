"""Read Kafka calls from packet captures and brokers' request logs, record traffic, and redact captures.

The functions are in ``kafkaframes``: ``scan_capture``, ``read_capture``, ``record_traffic``, ``redact_capture``. This
    package exports the classes of the results that these functions return.
"""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.capture.coverage import Coverage, UnreadData
    from kafkaframes.capture.recording import Recording
    from kafkaframes.capture.redaction import RedactionResult

__all__ = [
    "Coverage",
    "Recording",
    "RedactionResult",
    "UnreadData",
]

_NAMES_BY_MODULE = {
    "coverage": ("Coverage", "UnreadData"),
    "recording": ("Recording",),
    "redaction": ("RedactionResult",),
}

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _NAMES_BY_MODULE)
