"""``kafkaframes spec show-codec`` prints functions that compile."""

from tests.cli.calling import run_and_describe as run


def test_show_codec_prints_the_functions():
    text = run("spec", "show-codec", "MetadataResponse", "12")[1]
    assert "def read_MetadataResponseTopic_array(buf, p, end, count):" in text
    assert "def write_MetadataResponse(o, put):" in text
    compile(text, "codec", "exec")
