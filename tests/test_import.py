"""``import kafkaframes`` must cost next to nothing: libraries pay for what they use."""

import subprocess
import sys


def test_importing_the_package_loads_neither_numba_nor_pyarrow_nor_pyspark():
    code = "import sys, kafkaframes; print(*sorted({'numba', 'numpy', 'pyarrow', 'pyspark'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_what_is_public_is_there_after_the_import_alone():
    code = "import kafkaframes; [getattr(kafkaframes, name) for name in kafkaframes.__all__]; print(dir(kafkaframes))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert all(f"'{name}'" in shown for name in ("Producer", "errors", "describe_log", "__version__"))
    assert "importlib" not in shown
