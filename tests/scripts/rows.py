#!/usr/bin/env python3
"""Whether each row and field case of tests/interop/rows.txt has a test of its name that passed in what cargo printed.

A name in a source file is not a test that ran: its module may be in no program, or it may be ignored or left out by a
condition. Ends with a line that test.sh counts.

usage: rows.py ROWS.TXT OUTPUT...
"""

import pathlib
import re
import sys

PASSED = re.compile(r"^test (?:[\w:]+::)?(m[1-9]\d*|s[1-9]\d?|field_[a-z]\d\d)_\w+ (?:- should panic )?\.\.\. ok$", re.MULTILINE)

rows, *outputs = map(pathlib.Path, sys.argv[1:])
promised = [line for line in rows.read_text().splitlines() if line and not line.startswith("#")]
named = {row for output in outputs for row in PASSED.findall(output.read_text(errors="replace"))}
without = [row for row in promised if row not in named]
for row in without:
    print(f"FAILED {row}: no test of that name passed")
print(f"rows result: {len(promised) - len(without)} passed; {len(without)} failed;")
sys.exit(1 if without else 0)
