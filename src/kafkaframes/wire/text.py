"""Text as Java reads it: malformed UTF-8 is replaced, never refused."""

from __future__ import annotations

import re

# Java replaces an encoded surrogate by one U+FFFD, Python each of its bytes.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_text(data: bytes) -> str:
    """Decode UTF-8 as ``new String(bytes, UTF_8)`` does: one U+FFFD for each malformed sequence.

    >>> java_text(b"a\\xffb"), java_text(b"\\xed\\xa0\\x80")
    ('a\\ufffdb', '\\ufffd')
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode(errors="replace")
