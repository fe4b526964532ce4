# SPDX-License-Identifier: Apache-2.0
"""page.py URL PAGE... - runs the blocks of Python of each page in order against a daemon, and compares what each
prints with the block behind it. "..." stands for anything, white space does not count."""

import contextlib
import io
import re
import sys


def run_page(url, page):
    said = open(page).read()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", said, re.M | re.S)
    names, count = {}, 0
    for i, (language, text) in enumerate(blocks):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text.replace("http://127.0.0.1:8080", url), page, "exec"), names)
        assert blocks[i + 1][0] == "text", "%s: no answer behind\n%s" % (page, text)
        want = ".*".join(map(re.escape, " ".join(blocks[i + 1][1].split()).split("...")))
        got = " ".join(printed.getvalue().split())
        assert re.fullmatch(want, got, re.S), "%s has\n%s\nand this prints\n%s" % (
            page, blocks[i + 1][1], printed.getvalue())
        count += 1
    assert count == said.count("```python\n") > 0, "%s has blocks that were not run" % page


for page in sys.argv[2:]:
    run_page(sys.argv[1], page)
print("ok")
