"""One log from several copies of it: ``lineage`` and ``blocks`` say what a copy holds, ``merge`` decides, ``reading``
reads the headers, ``view`` shows the result as a log directory like any other. ``docs/many-copies.md`` has the rules.
"""
