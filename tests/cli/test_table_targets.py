"""Where ``table`` writes, and formats that cannot do what is asked."""

import pytest
from tests.cli.table_calls import ORDERS, as_json, refused, send, told

pytestmark = pytest.mark.usefixtures("closed_catalogs")


def test_parquet_files_have_no_latest(tmp_path):
    said = refused("orders", "-b", "127.0.0.1:9", "--to", "parquet", tmp_path / "t", "--mode", "latest")
    assert "--to delta or --to iceberg" in said


def test_a_table_of_another_mode_is_left_alone(broker, topic, tmp_path):
    send(broker, topic, as_json(ORDERS[:2]))
    flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta", tmp_path / "t")
    told(*flags)
    assert "holds other records than this run asks for" in refused(*flags, "--mode", "json")
