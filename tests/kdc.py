"""A Kerberos key distribution centre (KDC) on the loopback interface for tests, from Debian's packages.

It requires ``apt-get install krb5-kdc krb5-admin-server``; Python clients also require ``krb5-user libkrb5-dev gcc``
and the extra ``kerberos``. All files are in one folder. The machine's own Kerberos settings are neither read nor
changed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

REALM = "EXAMPLE.TEST"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_FOLDERS = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_SETTINGS = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
 NOWHERE.TEST = {{
  kdc = 127.0.0.1:{nobody}
 }}
"""
_KDC_SETTINGS = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principals
  key_stash_file = {folder}/stash
  max_life = 1h
 }}
[logging]
 kdc = FILE:{folder}/kdc.log
"""


def find_missing_program() -> str:
    """Return the name of a missing program of the KDC, or an empty string."""
    return ", ".join(name for name in PROGRAMS if shutil.which(name, path=_FOLDERS) is None)


class Kdc:
    """A running KDC, used as ``with Kdc(folder) as kdc``. Programs with the variables in ``environment`` use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder}/cache",
        }
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def settings(self) -> Path:
        """The ``krb5.conf``."""
        return self.folder / "krb5.conf"

    def __enter__(self) -> Kdc:
        values = {"realm": REALM, "folder": self.folder, "port": self.port, "nobody": _free_port()}
        self.settings.write_text(_SETTINGS.format(**values))
        (self.folder / "kdc.conf").write_text(_KDC_SETTINGS.format(**values))
        self._run("kdb5_util", "create", "-s", "-P", "master")
        self._process = subprocess.Popen([self._path("krb5kdc"), "-n"], env=os.environ | self.environment)
        deadline = time.monotonic() + 30
        while not _is_listening(self.port):
            assert self._process.poll() is None, (self.folder / "kdc.log").read_text()
            assert time.monotonic() < deadline, "the KDC does not accept connections"
            time.sleep(0.02)
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    def keytab(self, *principals: str) -> str:
        """Create principals. Create principals; return the path of a keytab with their keys."""
        path = self.folder / f"{principals[0].replace('/', '-')}.keytab"
        for name in principals:
            self._run("kadmin.local", "-q", f"addprinc -randkey {name}")
            self._run("kadmin.local", "-q", f"ktadd -k {path} {name}")
        return str(path)

    def fill_cache(self, principal: str, keytab: str) -> str:
        """Get a ticket for a principal as ``kinit`` does; return the path of the ticket cache. Return the cache."""
        cache = f"FILE:{self.folder}/{principal.replace('/', '-')}.cache"
        self._run("kinit", "-k", "-t", keytab, "-c", cache, principal)
        return cache

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._path(program), *arguments]
        process = subprocess.run(
            command, env=os.environ | self.environment, capture_output=True, timeout=60, check=False
        )
        assert process.returncode == 0, process.stderr.decode()

    @staticmethod
    def _path(program: str) -> str:
        path = shutil.which(program, path=_FOLDERS)
        assert path is not None, program
        return path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
