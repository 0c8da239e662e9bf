"""``import kafkaframes`` must cost next to nothing: libraries pay for what they use."""

import subprocess
import sys


def test_importing_the_package_loads_neither_numba_nor_pyarrow_nor_pyspark():
    code = "import sys, kafkaframes; print(*sorted({'numba', 'numpy', 'pyarrow', 'pyspark'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []
