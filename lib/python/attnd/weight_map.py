"""Weights that draw themselves in a notebook."""

import base64
import html
import struct
import zlib

import numpy as np

from .tensors import _View


class WeightMap:
    """Weights [heads, query, key] or [query, key], as answers have them, with what tokens they are of.

    An array of numpy by numpy.asarray(). A notebook shows a picture of each head, dark for a large weight; of one
    head of few tokens a table with their texts. A batch of one, [1, heads, query, key], is taken as its item.
    """

    HEADS, CELLS = 16, 192  # of a picture at most
    TEXTS = 48              # of a table at most

    def __init__(self, weights, tokens=None):
        array = _View(weights, "weights").array() if hasattr(weights, "data_ptr") else np.asarray(weights)
        self.array = array[0] if array.ndim == 4 and len(array) == 1 else array
        if self.array.ndim not in (2, 3):
            raise ValueError("weights have the shape %s; expected [heads, query, key] or [query, key]"
                             % (array.shape,))
        self.tokens = tokens

    def head(self, number):
        """The map of one head."""
        return WeightMap(self.array[number], self.tokens)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype) if copy or dtype not in (None, self.array.dtype) else self.array

    def __getitem__(self, index):
        return self.array[index]

    def __len__(self):
        return len(self.array)

    def __repr__(self):
        return "WeightMap(%s)" % " x ".join(map(str, self.array.shape))

    shape = property(lambda self: self.array.shape)

    @staticmethod
    def _pooled(weights, cells):
        """The largest weight of each cell: index i of n is in cell i * cells // n."""
        for axis in (0, 1):
            n = weights.shape[axis]
            if n > cells:
                weights = np.maximum.reduceat(weights, -(-np.arange(cells) * n // cells), axis)
        return weights

    @classmethod
    def _png(cls, weights):
        weights = np.nan_to_num(cls._pooled(np.asarray(weights, np.float32), cls.CELLS), posinf=1, neginf=0)
        most = weights.max(initial=0) or 1
        pixels = (255 - np.clip(weights / most, 0, 1) * 255).round().astype(np.uint8)
        rows = np.zeros((pixels.shape[0], pixels.shape[1] + 1), np.uint8)
        rows[:, 1:] = pixels

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        size = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 0, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) \
            + chunk(b"IEND", b"")

    def _table(self):
        """One head, whose rows and columns begin with tokens; a cell says its weight where the pointer rests."""
        tokens = [html.escape(token) for token in self.tokens]
        most = np.nan_to_num(self.array).max(initial=0) or 1
        head = "".join('<th style="writing-mode:vertical-rl;text-align:right">%s</th>' % token for token in tokens)
        rows = ""
        for token, weights in zip(tokens, self.array):
            cells = "".join('<td title="%.4g: %s" style="padding:0;min-width:14px;background:rgba(0,0,0,%.3f)"></td>'
                            % (weight, key, min(max(weight / most, 0), 1)) for weight, key in zip(weights, tokens))
            rows += '<tr><th style="text-align:right">%s</th>%s</tr>' % (token, cells)
        return '<table class="attnd-weights" style="background:#fff;color:#000"><tr><th></th>%s</tr>%s</table>' \
            % (head, rows)

    def _repr_html_(self):
        if self.array.ndim == 2 and self.tokens and self.array.shape == (len(self.tokens),) * 2 \
                and len(self.tokens) <= self.TEXTS:
            return self._table()
        heads = self.array[None] if self.array.ndim == 2 else self.array
        if 0 in heads.shape:
            return "<p>%s</p>" % html.escape(repr(self))
        figures = []
        for number, head in enumerate(heads[:self.HEADS]):
            picture = base64.b64encode(self._png(head)).decode()
            figures.append('<figure style="display:inline-block;margin:4px"><img alt="weights of head %d, query rows '
                           'down, keys across" style="width:160px;height:160px;image-rendering:pixelated;border:1px '
                           'solid #ccc" src="data:image/png;base64,%s"><figcaption>head %d</figcaption></figure>'
                           % (number, picture, number))
        said = "%d of %d heads, %d query rows, %d keys" % (len(figures), *heads.shape)
        words = "" if not self.tokens else "<details><summary>tokens</summary>%s</details>" \
            % html.escape(" ".join(self.tokens))
        return '<div class="attnd-weights"><p>%s</p>%s%s</div>' % (said, "".join(figures), words)
