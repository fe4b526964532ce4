# SPDX-License-Identifier: Apache-2.0
"""Weights of any model in the daemon's page: in a notebook, or as one file.

The page is the daemon's own, with its style sheet and its module in the places of their names, and the weights before
them as a safetensors file in base64: so no text of a token is ever a part of its HTML."""

import base64
import hashlib
import html
import re

import numpy as np

from .answers import AttndError, _safetensors
from .client import Client
from .tensors import _View

__all__ = ["Shown", "show"]

_WEIGHTS_MAX = 32 << 20  # of one page: 128 MiB
# The page itself, and what it draws or saves: it asks nobody for anything.
_POLICY = "default-src 'none'; img-src blob: data:; script-src %s; style-src %s"
_STYLE = re.compile(r'<link rel="stylesheet" href="([^"]+)">')
_SCRIPT = re.compile(r'<script type="module" src="([^"]+)"></script>')
_LINK = re.compile(r'<link rel="(?:icon|modulepreload)"[^>]*>\n?')


def _array(value, name):
    """Weights as an array of float32, of tensors also those on a device or with a gradient."""
    for method in ("detach", "cpu"):
        value = getattr(value, method)() if hasattr(value, "data_ptr") else value
    try:
        array = _View(value, name).numbers() if hasattr(value, "data_ptr") else value
        return np.ascontiguousarray(array, np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError("%s is no array of numbers: %s" % (name, error)) from None


def _depth(value):
    """How many axes an array, or a list of lists or arrays, has."""
    if isinstance(value, (tuple, list)):
        return 1 + _depth(value[0]) if value else 1
    return len(getattr(value, "shape", ()))


def _layer(value, name):
    layer = _array(value, name)
    layer = layer[0] if layer.ndim == 4 and len(layer) == 1 else layer
    layer = layer[None] if layer.ndim == 2 else layer
    if layer.ndim != 3 or 0 in layer.shape:
        raise ValueError("%s has the shape %s; expected [1, heads, query, key] or [heads, query, key]"
                         % (name, list(layer.shape)))
    if np.isinf(layer).any():
        raise ValueError("%s has a weight that is infinite, or beyond what 32 bits hold" % name)
    return layer


def _layers(attentions):
    """One array [heads, query, key] for each layer."""
    if _depth(attentions) < 4:
        return [_layer(attentions, "attentions")]
    return [_layer(layer, "attentions[%d]" % i) for i, layer in enumerate(attentions)]


def _texts(tokens, counts, name):
    texts = [str(token) for token in tokens]
    if len(texts) not in counts:
        raise ValueError("there are %d %s; expected %s" % (len(texts), name, " or ".join(map(str, sorted(counts)))))
    return texts


def _file(attentions, tokens, row_tokens, key_tokens):
    """A safetensors file, as the page reads it."""
    layers = _layers(attentions)
    count = sum(layer.size for layer in layers)
    if count > _WEIGHTS_MAX:
        raise ValueError("there are %d weights; one page shows at most %d: leave layers or heads out"
                         % (count, _WEIGHTS_MAX))
    rows, keys = {layer.shape[1] for layer in layers}, {layer.shape[2] for layer in layers}
    given = (("tokens", tokens, rows | keys), ("row_tokens", row_tokens, rows), ("key_tokens", key_tokens, keys))
    fields = {name: _texts(texts, count, name) for name, texts, count in given if texts is not None}
    return b"".join(_safetensors(dict(fields, **{"attentions.%d" % i: layer for i, layer in enumerate(layers)})))


def _text_of(client, path):
    return client._call("GET", "/" + path.lstrip("/"))[1].decode()


def _hash_of(text):
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _page(client, place):
    """The daemon's page as one text, with place before its module."""
    page = _text_of(client, "/")
    styles, scripts = _STYLE.findall(page), _SCRIPT.findall(page)
    if len(styles) != 1 or len(scripts) != 1:
        raise AttndError("%s: what is at / is no page of an attnd daemon with this client's version; is it off "
                         "(--explorer off)?" % client.url, 200)
    style, script = _text_of(client, styles[0]), _text_of(client, scripts[0])
    script = re.sub("<(?=/script|!--)", r"\\x3c", script, flags=re.I)  # which would end it
    policy = _POLICY % (_hash_of(script), _hash_of(style))
    page = _STYLE.sub(lambda _: "<style>%s</style>" % style, _LINK.sub("", page))
    page = _SCRIPT.sub(lambda _: place + '<script type="module">%s</script>' % script, page)
    charset = '<meta charset="utf-8">\n'
    return page.replace(charset, charset + '<meta http-equiv="Content-Security-Policy" content="%s">\n' % policy, 1)


class Shown:
    """What show() made: a notebook shows it in a frame, and html is the whole page.

    Parameters: page, its HTML; height of the frame, in pixels. Raises nothing.

    >>> attnd.show([[1, 0], [0.25, 0.75]], ["a", "b"], client=client).html[:15]
    '<!doctype html>'
    """

    def __init__(self, page, height):
        self.html, self.height = page, height

    def _repr_html_(self):
        return ('<iframe title="Attention weights" sandbox="allow-scripts allow-downloads" width="100%%" height="%d" '
                'style="border: 1px solid #888" srcdoc="%s"></iframe>' % (self.height, html.escape(self.html)))

    def save(self, path):
        """Writes the page as one HTML file, which needs no daemon and no network.

        Parameters: path, of a file that is written over. Returns nothing. Raises OSError as open().

        >>> attnd.show([[1, 0], [0.25, 0.75]], client=client).save("/dev/null")
        """
        with open(path, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(self.html)


def show(attentions, tokens=None, client=None, *, row_tokens=None, key_tokens=None, name="attentions", height=700):
    """Weights that any model computed in the daemon's page, with all views that need no model.

    Parameters: attentions, as transformers answer them and BertViz takes them: an array, a tensor or a list
    [1, heads, query, key] for each layer, or one [layers, heads, query, key], [heads, query, key] or [query, key]; NaN
    is a pair that may not be seen; tokens, the texts of rows and keys, or row_tokens and key_tokens where these differ;
    client, a Client of the daemon that the page comes from, or its address, by default http://127.0.0.1:8080; name,
    what the page calls the weights; height of the frame in a notebook, in pixels. No weight goes to the daemon.

    Returns a Shown. Raises ValueError for other shapes, another number of tokens, infinite weights and more than 32
    million, and as a method of a Client where the page does not come.

    >>> trace = client.trace("Once upon a time", model="stories260K", outputs=["weights"])
    >>> attnd.show(trace.attentions, [token["text"] for token in trace.tokens], client).save("/dev/null")
    """
    file = base64.b64encode(_file(attentions, tokens, row_tokens, key_tokens)).decode()
    place = '<script type="application/octet-stream" id="weights" data-name="%s.safetensors">%s</script>\n' \
        % (html.escape(name), file)
    if not isinstance(client, Client):
        client = Client(client) if client else Client()
    return Shown(_page(client, place), height)
