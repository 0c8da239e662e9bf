"""Files with secrets: read only where nobody else may read them, made as their owner's alone."""

from __future__ import annotations

import os
import secrets
import stat
from typing import Final

from kafkaframes.errors import OptionError

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MOST_BYTES: Final = 1 << 20


def read_private(path: str) -> str:
    """Return the text of a file that its owner alone may read.

    Raises:
        OptionError: it cannot be read, is no text, or others may read it, as ssh says of keys.
    """
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(_MOST_BYTES)
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}") from None
    if os.name == "posix" and mode & _OTHERS:
        raise OptionError(f"{path} has mode {mode:04o}: others may read or change its secrets; chmod 600 {path}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not UTF-8") from None


def token_of_file(path: str) -> str:
    """Return the token that a file holds; a new one is written where there is no file.

    Raises:
        OptionError: as for ``read_private``, it holds none, or cannot be written.
    """
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = read_private(path).strip()
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            raise OptionError(f"{path} holds no token: one word of ASCII letters, digits and signs") from None
        return token
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}") from None
    token = secrets.token_urlsafe(32)
    with open(made, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token
