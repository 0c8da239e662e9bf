"""``import kafkaframes`` must cost next to nothing: libraries pay for what they use."""

import subprocess
import sys

import pytest


def test_importing_the_package_loads_neither_numba_nor_pyarrow_nor_pyspark():
    code = "import sys, kafkaframes; print(*sorted({'numba', 'numpy', 'pyarrow', 'pyspark'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


@pytest.mark.parametrize(
    ("module", "some"),
    [
        ("kafkaframes", {"Producer", "errors", "describe_log", "__version__"}),
        ("kafkaframes.client", {"Producer", "NewTopic", "LATEST", "TopicPartition"}),
        ("kafkaframes.testing", {"Control", "ExternalBroker", "SchemaRegistry", "seed"}),
    ],
)
def test_what_is_public_is_there_after_the_import_alone_and_shown_by_dir(module, some):
    code = f"import kafkaframes, {module} as m; shown = dir(m); [getattr(m, name) for name in m.__all__]; print(*shown)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert some <= set(shown)
    assert not {"importlib", "import_module", "TYPE_CHECKING"} & set(shown)
