# SPDX-License-Identifier: Apache-2.0
"""What a call sends: lists and tensors as rows of numbers, items of batches as fields."""

import urllib.parse

import numpy as np

from .answers import _ROWS, _is_tensor, _of_integers

__all__ = []


def _items(requests, text=None):
    """The items of a batch as dicts of fields; a str among them is the field that text names."""
    if isinstance(requests, (str, bytes, dict)):
        raise TypeError("requests is %r; expected a list of them" % (requests,))
    items = list(requests)
    for i, item in enumerate(items):
        if text and isinstance(item, str):
            items[i] = {text: item}
        elif not isinstance(item, dict):
            raise TypeError("requests[%d] is of type %s; expected a dict of fields%s"
                            % (i, type(item).__name__, " or a text" if text else ""))
    return items


def _tensor_of(value, name=None):
    """Lists of numbers, and integers, as an array of floats, None in a mask as -inf; a mask of bool as it is."""
    value = _of_integers(value)
    if value is None or _is_tensor(value) and not (isinstance(value, np.ndarray) and value.dtype.kind in "iu"):
        return value
    array = np.asarray(value)
    if array.dtype == object and name == "mask":
        array = np.where(np.equal(array, None), -np.inf, array).astype(np.float32)
    if array.dtype.kind not in "biuf":
        raise TypeError("%s is of the dtype %s; expected numbers" % (name or "input", array.dtype))
    if name == "mask" and array.dtype.kind in "iu" and array.max(initial=0) == 1 and array.min(initial=0) == 0:
        raise TypeError("mask is nothing but the integers 0 and 1, which could mean either: expected bool, what may "
                        "attend, or floats, which are added to the scores")
    return array if array.dtype == bool else array.astype(np.float32)


def _listed(name, items, fields):
    """fields with a list of items under name, whose tensors are fields such as `requests.0.query`."""
    rest = []
    for i, item in enumerate(items):
        item = {field: _tensor_of(value, field) if field in _ROWS else value for field, value in item.items()}
        fields.update({"%s.%d.%s" % (name, i, field): value for field, value in item.items() if _is_tensor(value)})
        rest.append({field: value for field, value in item.items() if value is not None and not _is_tensor(value)})
    return dict(fields, **{name: rest})


def _appends(fields):
    return any(fields.get(name) is not None for name in ("key", "value", "input"))


def _is_repeatable(fields):
    """Whether a call on a session may be sent again where no answer came."""
    return "at" in fields or not _appends(fields)


def _quoted(name):
    return urllib.parse.quote(str(name), safe="")


def _trace_id(trace):
    """The id of a kept trace, of the answer that names it, or an id itself."""
    return trace["trace"] if isinstance(trace, dict) else getattr(trace, "id", trace)


def _edit_of(edit, i):
    """An edit as a new dict, with the id of the trace that its rows are from."""
    if not isinstance(edit, dict):
        raise TypeError("edits[%d] is of type %s; expected a dict of its fields" % (i, type(edit).__name__))
    edit = {name: value for name, value in edit.items() if value is not None}
    if isinstance(edit.get("from"), dict) and "trace" in edit["from"]:
        edit["from"] = dict(edit["from"], trace=_trace_id(edit["from"]["trace"]))
    return edit


def _with_edits(fields, binary=True):
    """fields with edits whose arrays are fields of their own, such as `edits.0.set`, where tensors may go as bytes."""
    edits = fields.get("edits")
    if edits is None:
        return fields
    if isinstance(edits, (str, dict)):
        raise TypeError("edits is %r; expected a list of dicts" % (edits,))
    edits, fields = [_edit_of(edit, i) for i, edit in enumerate(edits)], dict(fields)
    for i, edit in enumerate(edits if binary else ()):
        for name in ("add", "set", "weights"):
            if _is_tensor(edit.get(name)):
                fields["edits.%d.%s" % (i, name)] = _tensor_of(edit.pop(name), name)
    fields["edits"] = edits
    return fields
