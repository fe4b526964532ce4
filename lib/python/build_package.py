# SPDX-License-Identifier: Apache-2.0
"""build_package.py - the folder attnd/ as a wheel, for pip, and as one file that can be copied.

    pip install ./lib/python                          pip calls build_wheel(); pyproject.toml names this file
    python3 lib/python/build_package.py > attnd.py    the one file: `make python` writes it to build/attnd.py
"""

import ast
import base64
import hashlib
import io
import os
import re
import sys
import tarfile
import zipfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
# In this order each module uses names of those before it alone.
MODULES = ["tensors", "autograd", "attention", "weight_map", "cache", "answers", "fields", "sessions", "client",
           "shown", "__init__"]


def source(module):
    with open(os.path.join(FOLDER, "attnd", module + ".py"), encoding="utf-8") as stream:
        return stream.read()


def is_left_out(node, module):
    """Imports, which the one file has in front or not at all, and a module's own __all__."""
    if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
        return module != "__init__"
    return isinstance(node, (ast.Import, ast.ImportFrom))


def one_file():
    """The modules one behind the other, behind what is said of the package and what they import of others."""
    imports, parts = set(), []
    for module in MODULES:
        lines, tree = source(module).split("\n"), ast.parse(source(module))
        for i, node in enumerate(tree.body):
            if isinstance(node, ast.Import):
                imports.add(ast.unparse(node))
            if i == 0 or is_left_out(node, module):
                lines[node.lineno - 1:node.end_lineno] = [None] * (node.end_lineno - node.lineno + 1)
        rest = "\n".join(line for line in lines if line is not None).strip("\n")
        parts.append("\n\n# %s %s.py --\n\n\n%s\n" % ("-" * (110 - len(module)), module, rest))
    return '"""%s"""\n\n# Made of the modules of the package by build_package.py: change those.\n\n%s\n%s' % (
        ast.get_docstring(ast.parse(source("__init__")), clean=False), "\n".join(sorted(imports)), "".join(parts))


def metadata():
    version = re.search(r'^__version__ = "(.*)"$', source("__init__"), re.M)[1]
    return version, ("Metadata-Version: 2.1\nName: attnd\nVersion: %s\nSummary: attention in this process or by an "
                     "attnd daemon\nLicense: Apache-2.0\nRequires-Python: >=3.9\nRequires-Dist: numpy\n" % version)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel, and gives the name of its file. Equal sources give equal bytes."""
    version, about = metadata()
    info, name = "attnd-%s.dist-info/" % version, "attnd-%s-py3-none-any.whl" % version
    files = {"attnd/%s.py" % module: source(module) for module in sorted(MODULES)}
    files[info + "METADATA"] = about
    files[info + "WHEEL"] = "Wheel-Version: 1.0\nGenerator: attnd\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += "%s,sha256=%s,%d\n" % (path, digest, len(text.encode()))
            wheel.writestr(zipfile.ZipInfo(path), text)
        wheel.writestr(zipfile.ZipInfo(info + "RECORD"), record + info + "RECORD,,\n")
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Writes the sources that pip can build again, and gives the name of their file."""
    version, about = metadata()
    files = {"attnd/%s.py" % module: source(module) for module in MODULES}
    for name in ("pyproject.toml", "build_package.py"):
        with open(os.path.join(FOLDER, name), encoding="utf-8") as stream:
            files[name] = stream.read()
    files["PKG-INFO"] = about
    name = "attnd-%s.tar.gz" % version
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo("attnd-%s/%s" % (version, path))
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return name


if __name__ == "__main__":
    sys.stdout.write(one_file())
