"""page.py URL - runs the blocks of Python of lib/python/README.md in order against a daemon, and compares what each
prints with the block behind it. "..." stands for anything, white space does not count."""

import contextlib
import io
import re
import sys

blocks = re.findall(r"^```(\w+)\n(.*?)^```$", open("lib/python/README.md").read(), re.M | re.S)
names, count = {}, 0
for i, (language, text) in enumerate(blocks):
    if language != "python":
        continue
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text.replace("http://127.0.0.1:8080", sys.argv[1]), "README.md", "exec"), names)
    assert blocks[i + 1][0] == "text", "no answer behind\n" + text
    want = ".*".join(map(re.escape, " ".join(blocks[i + 1][1].split()).split("...")))
    got = " ".join(printed.getvalue().split())
    assert re.fullmatch(want, got, re.S), "the page has\n%s\nand this prints\n%s" % (blocks[i + 1][1], printed.getvalue())
    count += 1
assert count >= 4
print("ok")
