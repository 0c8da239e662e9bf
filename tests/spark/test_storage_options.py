"""Options of stores under Spark's and fsspec's names; no JVM."""

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.spark.options import separate_storage


def test_hadoop_names_are_translated_to_fsspec_names():
    hadoop_options = {
        "path": "s3://b/logs",
        "spark.hadoop.fs.s3a.endpoint": "127.0.0.1:9000",
        "FS.S3A.ENDPOINT.REGION": "eu-west-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "anon": "TRUE",
    }
    others, storage = separate_storage(hadoop_options)
    assert others == {"path": "s3://b/logs"}
    assert storage == {
        "endpoint_url": "https://127.0.0.1:9000",
        "client_kwargs": {"region_name": "eu-west-1"},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
        "use_ssl": False,
        "anon": True,
    }


def test_the_json_option_overrides_single_names():
    assert separate_storage({"key": "a", "storageOptions": '{"key": "b", "x": 1}'})[1] == {"key": "b", "x": 1}
    for text in ("[]", "{", "7"):
        with pytest.raises(OptionError, match="storageOptions: must be JSON such as"):
            separate_storage({"storageOptions": text})


def test_an_unparsable_value_is_not_shown():
    with pytest.raises(OptionError, match="option anon: must be true or false") as error_info:
        separate_storage({"anon": "hunter2"})
    assert "hunter2" not in str(error_info.value)
