# SPDX-License-Identifier: Apache-2.0
"""layout.py - the structs of attnd.py are those of the headers. Reads lines "STRUCT FIELD OFFSET BYTES", a field of "-"
being the whole struct."""

import ctypes
import sys

from attnd import attention

STRUCTS = {"attn_tensor": attention._Tensor, "attn_options": attention._Options, "attn_problem": attention._Problem,
           "attn_plan": attention._Plan, "attn_gradient_problem": attention._GradientProblem,
           "attn_gradient_plan": attention._GradientPlan, "attn_softmax": attention._Softmax}
seen = set()
for line in sys.stdin:
    name, field, offset, size = line.split()
    struct = STRUCTS[name]
    if field == "-":
        here = ctypes.sizeof(struct)
        assert here == int(size), "struct %s has %s bytes and %d in attention.py" % (name, size, here)
    else:
        seen.add((name, field))
        here = getattr(struct, field)
        assert (here.offset, here.size) == (int(offset), int(size)), "%s and %r in attention.py" % (line.strip(), here)
left = {(name, field[0]) for name, struct in STRUCTS.items() for field in struct._fields_} - seen
assert not left, "nobody says where the headers have %s" % sorted(left)
print("ok")
