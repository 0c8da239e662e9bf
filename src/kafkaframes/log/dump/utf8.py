"""Bytes as Java prints them: UTF-8, with a replacement character for what is not.

Java and Python agree on how much of a malformed sequence one replacement character stands for, but for encoded
surrogates (``ed a0..bf ..``): Python counts each byte, Java the whole of what looks like a sequence of three.
"""

from __future__ import annotations

import codecs

REPLACEMENT = "\ufffd"


def _java_replacement(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement for one malformed sequence, and where decoding goes on."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    raw, start, end = error.object, error.start, error.end
    if raw[start] == 0xED and start + 1 < len(raw) and 0xA0 <= raw[start + 1] <= 0xBF:
        third = start + 2 < len(raw) and 0x80 <= raw[start + 2] <= 0xBF
        end = start + (3 if third else 2)
    return REPLACEMENT, end


codecs.register_error("kafkaframes-java", _java_replacement)


def java_text(raw: bytes | bytearray | memoryview) -> str:
    """Decode as Java's ``new String(bytes, UTF_8)`` does.

    >>> java_text(b"caf\\xc3\\xa9"), java_text(b"\\xed\\xa0\\x80!"), java_text(b"\\xf0\\x90(")
    ('café', '\ufffd!', '\ufffd(')
    """
    return bytes(raw).decode("utf-8", "kafkaframes-java")


def java_bytes(raw: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    """Return the bytes as Java would write them to a UTF-8 terminal; the same object where they are UTF-8 already.

    Values may stand side by side as long as a byte below 0x80 parts them: a malformed sequence never takes such a one.
    """
    try:
        codecs.utf_8_decode(raw, "strict", True)
    except UnicodeDecodeError:
        return java_text(raw).encode()
    return raw
