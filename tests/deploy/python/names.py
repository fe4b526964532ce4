# SPDX-License-Identifier: Apache-2.0
"""names.py - prints what is public: each name with its arguments, its bases and what is said of it."""

import inspect
import re

import attnd


def show(path, value):
    said = inspect.signature(value) if inspect.isfunction(value) else getattr(value, "__mro__", "")
    print(path, re.sub(" at 0x[0-9a-f]+", "", str(said)), inspect.getdoc(value))


print(attnd.__doc__, attnd.__version__)
for name in attnd.__all__:
    public = getattr(attnd, name)
    show(name, public)
    for member, value in vars(public).items() if isinstance(public, type) else ():
        if not member.startswith("_"):
            show(name + "." + member, value)
