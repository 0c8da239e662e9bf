"""One log from several copies: ``blocks`` reads their content and lineage, ``merge`` decides, ``reading`` reads the
headers, and ``view`` presents the result as an ordinary log directory. ``docs/many-copies.md`` explains the rules.
"""
