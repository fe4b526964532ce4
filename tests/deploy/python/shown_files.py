# SPDX-License-Identifier: Apache-2.0
"""shown_files.py URL FOLDER - writes what attnd.show() makes of a small map with hostile tokens: saved.html, and
notebook.html, which holds its frame among its own text as a notebook does."""

import sys

import attnd

WEIGHTS = [[[1, None, None], [0.25, 0.75, None], [0.5, 0.125, 0.375]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]]
TOKENS = ["</script><img src=x onerror=hacked=1>", "\"'&quot;", "<!--<script>"]

url, folder = sys.argv[1:]
shown = attnd.show((WEIGHTS, WEIGHTS), TOKENS, url, name="\"'><script>hacked=1</script>")
shown.save(folder + "/saved.html")
with open(folder + "/notebook.html", "w", encoding="utf-8") as stream:
    stream.write("<!doctype html><meta charset=utf-8><title>Notebook</title><p>Out[1]:" + shown._repr_html_())
