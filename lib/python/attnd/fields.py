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
