"""How a recovery resolves the cleaner's unfinished work: ``.deleted``, ``.cleaned`` and ``.swap`` files.

There are two rules. In later brokers (LogLoader) a finished swap is renamed before anything is loaded, and the
segments that it replaces are deleted. In 2.8 (Log) the old segments are loaded first; then each swap is recovered under
its own name, the segments whose offsets it covers are set aside, and it is renamed. ``SWAP_RULES`` has the rule of each
generation. A rule only changes a draft.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kafkaframes.errors import OptionError
from kafkaframes.storage.files import names
from kafkaframes.storage.files.broker_release import BEFORE_HORIZONS, BROKER_RELEASES, KEEPS_FORMATS, REWRITES_OLD
from kafkaframes.storage.files.directory import LogFile
from kafkaframes.storage.files.filesystem import FileSystem, join, split
from kafkaframes.storage.files.headers import HeaderWalk
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.recovery.draft import Action, Draft, KeptSegment, Kind, Rebuild

INDEX_KINDS = ("index", "timeindex", "txnindex")
_OVERWRITTEN_KINDS = ("log", "index", "timeindex")  # a recovered swap always has these
Recover = Callable[[KeptSegment], KeptSegment]


@dataclass(slots=True)
class Opened:
    """The segments that a recovery has opened.

    Attributes:
        kept: in the log, by base offset.
        replaced: set aside for a swap.
        overwritten: not set aside, because they or the swap have no offsets; the swap has replaced their files.
    """

    kept: list[KeptSegment]
    replaced: tuple[KeptSegment, ...] = ()
    overwritten: tuple[KeptSegment, ...] = ()


@dataclass(frozen=True, slots=True)
class SwapRules:
    """How one generation of brokers completes a cleaning that was interrupted.

    Attributes:
        settle: handles temporary files before segments are loaded.
        complete: handles swaps after segments are loaded.
    """

    settle: Callable[[FileSystem, Draft], None]
    complete: Callable[[FileSystem, Draft, Opened, Recover], None]


def _settle_before_loading(filesystem: FileSystem, draft: Draft) -> None:
    """Delete files that waited for deletion or are unfinished; rename finished swaps to their final names."""
    draft.delete(draft.with_temporary("deleted"), "was waiting for its deletion")
    cleaned = draft.with_temporary("cleaned")
    lowest = min((file.name.offset for file in cleaned), default=None)
    if lowest is not None:
        unfinished = [file for file in draft.with_temporary("swap") if file.name.offset >= lowest]
        draft.delete(unfinished, "belongs to a split that did not finish")
    draft.delete(cleaned, "the cleaner did not finish it")
    swaps = draft.with_temporary("swap")
    logs = [file for file in swaps if file.name.kind == "log"]
    if logs:
        first = min(file.name.offset for file in logs)
        after = max(next_offset_of(filesystem, file) for file in logs)
        _drop_split(filesystem, draft, first)
        replaced = [
            file
            for file in draft.files.values()
            if file.name.temporary == "" and file.name.kind != "checkpoint" and first <= file.name.offset < after
        ]
        draft.delete(replaced, f"a finished swap covers the offsets {first} to {after - 1}")
    for file in swaps:
        draft.rename(file, "a finished swap takes its place")
    for file in logs:  # Kafka opens them to see where they end, which makes an index where there was none
        index = FileName(file.name.offset, "index")
        if index not in draft.files:
            path = join(split(file.path)[0], str(index))
            draft.actions.append(Action(Kind.CREATE, path, "a finished swap had none"))
            draft.files[index] = LogFile(index, path, 0, None)


def _drop_split(filesystem: FileSystem, draft: Draft, first: int) -> None:
    """Delete a segment that a split has left beside its parts: the first of them may be named higher than it.

    Kafka would keep both, so that its records would be there twice.
    """
    below = [base for base in draft.bases() if base < first]
    if below and next_offset_of(filesystem, draft.files[FileName(below[-1], "log")]) > first:
        draft.delete(draft.of_segment(below[-1]), f"its split was all but finished: pieces from {first} on are there")


def _swaps_are_done(_filesystem: FileSystem, _draft: Draft, _opened: Opened, _recover: Recover) -> None:
    """Do nothing: the swaps were renamed before the log was loaded."""


def _settle_except_swaps(_filesystem: FileSystem, draft: Draft) -> None:
    """Delete what was to be deleted and what was not finished; where there is any swap, the old indexes too.

    The indexes are deleted even if the swap is, too. The index of a swap without ``.log`` stays for ever.
    """
    draft.delete(draft.with_temporary("deleted"), "was waiting for its deletion")
    swaps = [file for file in draft.with_temporary("swap") if file.name.kind in names.SEGMENT_KINDS]
    for base in sorted({file.name.offset for file in swaps}):
        draft.delete(draft.of_segment(base, INDEX_KINDS), "a swap was about to take its place")
    cleaned = draft.with_temporary("cleaned")
    lowest = min((file.name.offset for file in cleaned), default=math.inf)
    invalid = {one.name.offset for one in swaps if one.name.kind == "log" and one.name.offset >= lowest}
    draft.delete((one for one in swaps if one.name.offset in invalid), "belongs to a split that did not finish")
    draft.delete(cleaned, "the cleaner did not finish it")


def _complete_after_loading(filesystem: FileSystem, draft: Draft, opened: Opened, recover: Recover) -> None:
    """Recover each swap, set aside what it covers, and let it take its place; in the order of their offsets.

    A broker goes by the hash codes of their paths, which matters to nothing but producer snapshots.
    """
    logs = [file for file in draft.with_temporary("swap") if file.name.kind == "log"]
    for file in sorted(logs, key=lambda segment: segment.name.offset):
        base = file.name.offset
        swap = recover(KeptSegment(base, file.path, str(file.name), file.size_bytes, -1, False))
        draft.rebuilds.append(Rebuild.of(swap, opened.kept))
        old = _covered(filesystem, draft, opened.kept, swap)
        reason = f"a finished swap covers the offsets {base} to {swap.next_offset - 1}"
        for segment in old:
            draft.set_aside(draft.of_segment(segment.base_offset), reason)
        draft.delete(draft.of_segment(base, _OVERWRITTEN_KINDS), "a finished swap takes its name")
        for part in [segment for segment in draft.with_temporary("swap") if segment.name.offset == base]:
            draft.rename(part, "a finished swap takes its place")
        others = [segment for segment in opened.kept if segment not in old]
        opened.overwritten += tuple(segment for segment in others if segment.base_offset == base)
        opened.replaced += tuple(old)
        swap = replace(swap, name=names.segment_file_name(base, "log"))
        kept = [segment for segment in others if segment.base_offset != base]
        opened.kept = sorted([*kept, swap], key=lambda segment: segment.base_offset)


def _covered(filesystem: FileSystem, draft: Draft, kept: Sequence[KeptSegment], swap: KeptSegment) -> list[KeptSegment]:
    """Return the segments that hold offsets from the swap's first on, and begin before its end."""
    if swap.next_offset == swap.base_offset:
        return []
    first = max((one.base_offset for one in kept if one.base_offset <= swap.base_offset), default=0)
    near = [one for one in kept if first <= one.base_offset < swap.next_offset]
    return [one for one in near if _end(filesystem, draft, one) > swap.base_offset]


def _end(filesystem: FileSystem, draft: Draft, segment: KeptSegment) -> int:
    if segment.is_recovered:
        return segment.next_offset
    return next_offset_of(filesystem, draft.files[FileName(segment.base_offset, "log")])


def next_offset_of(filesystem: FileSystem, file: LogFile) -> int:
    """Return the offset after the last batch; the base offset of an empty segment (LogSegment.readNextOffset).

    Raises:
        LogDirError: the file cannot be read.
    """
    next_offset = file.name.offset
    with filesystem.open(file.path) as read_at:
        for header in HeaderWalk(read_at, size_bytes=file.size_bytes, file=file.path):
            next_offset = header.last_offset + 1
    return next_offset


_BEFORE = SwapRules(_settle_before_loading, _swaps_are_done)
_AFTER = SwapRules(_settle_except_swaps, _complete_after_loading)
SWAP_RULES = {BEFORE_HORIZONS: _AFTER, KEEPS_FORMATS: _BEFORE, REWRITES_OLD: _BEFORE}


def rules_of(broker_release: str) -> SwapRules:
    """Return the rules of a generation.

    Raises:
        OptionError: there is no such generation.
    """
    if broker_release not in SWAP_RULES:
        raise OptionError(f"broker_release is one of {', '.join(BROKER_RELEASES)}, not {broker_release!r}")
    return SWAP_RULES[broker_release]
