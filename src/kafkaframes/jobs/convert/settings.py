"""What a rewrite is asked for: a format, a codec, and what to do about losses and damage."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaframes.errors import OptionError
from kafkaframes.records.build import DEFAULT_BATCH_BYTES
from kafkaframes.records.codecs import CODECS, Codec
from kafkaframes.records.reasons import FAILFAST, PERMISSIVE

MODES = (FAILFAST, PERMISSIVE)
ON_LOSS = ("error", "warn", "drop")


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSettings:
    """The settings of a rewrite; picklable, for it travels to other processes.

    Attributes:
        record_format: the format to write; ``None`` keeps each batch's own.
        codec: the codec to write; ``None`` keeps each batch's own.
        level: of the codec; ``None`` is Kafka's default.
        batch_bytes: about how large the batches become that uncompressed messages of formats 0 and 1 are joined into.
        on_loss: what the older format cannot say: ``error`` stops, ``warn`` goes on, ``drop`` goes on and is asked
            for by name, so nobody is warned. It is counted by kind in both.
        mode: ``FAILFAST`` stops at damage; ``PERMISSIVE`` copies damaged batches, and a torn tail, byte for byte.
        index_interval_bytes: ``index.interval.bytes`` of the new indexes.
    """

    record_format: int | None = None
    codec: Codec | None = None
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    on_loss: str = "error"
    mode: str = FAILFAST
    index_interval_bytes: int = 4096

    def __post_init__(self) -> None:
        """Refuse what cannot be done with any log.

        Raises:
            OptionError: names the setting.
        """
        if self.record_format not in (None, 0, 1, 2):
            raise OptionError(f"no record format {self.record_format!r}; there are 0, 1 and 2")
        if self.mode not in MODES:
            raise OptionError(f"mode is one of {', '.join(MODES)}, not {self.mode!r}")
        if self.on_loss not in ON_LOSS:
            raise OptionError(f"on_loss is one of {', '.join(ON_LOSS)}, not {self.on_loss!r}")
        if self.batch_bytes < 1 or self.index_interval_bytes < 1:
            raise OptionError("batch_bytes and index_interval_bytes are at least 1")
        self._check_codec()

    def _check_codec(self) -> None:
        if self.codec is Codec.ZSTD and self.record_format in (0, 1):
            raise OptionError(f"zstd needs format 2, not {self.record_format}")
        if self.level is None:
            return
        levels = CODECS[self.codec].levels if self.codec in CODECS else None
        if self.codec is None or levels is None:
            raise OptionError("a level needs a codec that has levels: gzip, lz4 or zstd")
        if not levels[0] <= self.level <= levels[1]:
            raise OptionError(f"{self.codec.name.lower()} has levels {levels[0]} to {levels[1]}, not {self.level}")
