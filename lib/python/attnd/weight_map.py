# SPDX-License-Identifier: Apache-2.0
"""Weights that draw themselves in a notebook."""

import base64
import html
import struct
import zlib

import numpy as np

from .tensors import _View

__all__ = ["WeightMap"]


class WeightMap(np.ndarray):
    """Weights [heads, query, key] or [query, key]: an array of numpy that a notebook shows as a picture of each head.

    Parameters: weights, an array or a tensor, where a batch of one, [1, heads, query, key], is taken as its item;
    tokens, the texts that rows and columns are of, as many as there are rows or keys, or None.

    Dark is a large weight. One head of few tokens is a table with their texts. What has all query rows and keys of the
    map still draws itself: a head, some heads, what arithmetic makes of each weight, a mean or another reduction over
    the heads. All else does not: rows and a mean over keys are plain arrays; a transposed map and other views are of
    this type still, with is_map False.

    Raises ValueError for weights of another number of dimensions and for another number of tokens.

    >>> weights = attnd.WeightMap([[[1, 0], [0.25, 0.75]], [[1, 0], [0.5, 0.5]]], ["a", "b"])
    >>> weights.mean(0).tolist(), weights[1].tokens, weights[:, 1].shape
    ([[1.0, 0.0], [0.375, 0.625]], ['a', 'b'], (2, 2))
    """

    HEADS, CELLS = 16, 192  # of a picture at most
    TEXTS = 48              # of a table at most

    def __new__(cls, weights, tokens=None):
        array = _View(weights, "weights").numbers() if hasattr(weights, "data_ptr") else np.asarray(weights)
        item = array[0] if array.ndim == 4 and len(array) == 1 else array
        if item.ndim not in (2, 3):
            raise ValueError("weights have the shape %s; expected [heads, query, key] or [query, key]"
                             % (array.shape,))
        if tokens is not None and len(tokens) not in item.shape[-2:]:
            raise ValueError("there are %d tokens; expected one for each of %d query rows or of %d keys"
                             % (len(tokens), *item.shape[-2:]))
        return cls._made(item, tokens, np.arange(len(item)) if item.ndim == 3 else None)

    @classmethod
    def _made(cls, array, tokens, heads):
        """heads are the numbers of those that the map has, one for a map of two dimensions, or None."""
        made = array.view(cls)
        made.is_map, made.tokens, made._heads = True, tokens, heads
        return made

    def __array_finalize__(self, source):
        # Numpy makes results of whatever it did by this alone: those that are maps say so afterwards.
        self.is_map, self.tokens, self._heads = False, None, None

    def head(self, number):
        """The map of one head, as weights[number].

        Parameters: number, from 0 on. Returns a WeightMap [query, key]. Raises IndexError for a head that is not there.

        >>> attnd.WeightMap([[[1, 0], [0.25, 0.75]]]).head(0).shape
        (2, 2)
        """
        return self[number]

    def __getitem__(self, index):
        part = self.view(np.ndarray)[index]
        is_one_head = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
        if not self.is_map or self.ndim != 3 or not (is_one_head or isinstance(index, (slice, list, np.ndarray))) \
                or part.shape[-2:] != self.shape[-2:] or part.ndim not in (2, 3):
            return part
        return self._made(part, self.tokens, None if self._heads is None else self._heads[index])

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        if out is not None:
            options["out"] = tuple(x.view(np.ndarray) if isinstance(x, WeightMap) else x for x in out)
        result = getattr(ufunc, method)(*(x.view(np.ndarray) if isinstance(x, WeightMap) else x for x in inputs),
                                        **options)
        if out is not None:
            return out[0] if len(out) == 1 else out
        if not isinstance(result, np.ndarray):
            return result
        if method == "__call__" and ufunc.signature is None:
            for x in inputs:
                if isinstance(x, WeightMap) and x.is_map and x.shape == result.shape:
                    return self._made(result, x.tokens, x._heads)
        elif method == "reduce" and self.is_map and self.ndim == 3 and options.get("axis", 0) in (0, -3, (0,), (-3,)):
            return self._made(result, self.tokens, None)
        return result

    def _of_equal_shape(self, array):
        return self._made(array, self.tokens, self._heads) if self.is_map else array

    def copy(self, order="C"):
        return self._of_equal_shape(super().copy(order))

    def astype(self, dtype, *arguments, **options):
        return self._of_equal_shape(super().astype(dtype, *arguments, **options))

    def round(self, decimals=0, out=None):
        return self._of_equal_shape(self.view(np.ndarray).round(decimals, out))

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __reduce__(self):
        make, arguments, state = super().__reduce__()
        return make, arguments, (state, self.__dict__)

    def __setstate__(self, state):
        super().__setstate__(state[0])
        self.__dict__.update(state[1])

    def __repr__(self):
        return super().__repr__() if self.is_map else repr(self.view(np.ndarray))

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
        array = np.asarray(self, float)
        most = np.nan_to_num(array).max(initial=0) or 1
        head = "".join('<th style="writing-mode:vertical-rl;text-align:right">%s</th>' % token for token in tokens)
        rows = ""
        for token, weights in zip(tokens, array):
            cells = "".join('<td title="%.4g: %s" style="padding:0;min-width:14px;background:rgba(0,0,0,%.3f)"></td>'
                            % (weight, key, min(max(weight / most, 0), 1)) for weight, key in zip(weights, tokens))
            rows += '<tr><th style="text-align:right">%s</th>%s</tr>' % (token, cells)
        return '<table class="attnd-weights" style="background:#fff;color:#000"><tr><th></th>%s</tr>%s</table>' \
            % (head, rows)

    def _repr_html_(self):
        if not self.is_map:
            return None  # a notebook shows the numbers
        if self.ndim == 2 and self.tokens and self.shape == (len(self.tokens),) * 2 \
                and len(self.tokens) <= self.TEXTS:
            return self._table()
        heads = np.asarray(self)[None] if self.ndim == 2 else np.asarray(self)
        if 0 in heads.shape:
            return "<p>%s</p>" % html.escape(repr(self))
        names = [""] * len(heads) if self._heads is None else ["head %d" % number for number in np.ravel(self._heads)]
        figures = []
        for name, head in zip(names[:self.HEADS], heads):
            picture = base64.b64encode(self._png(head)).decode()
            figures.append('<figure style="display:inline-block;margin:4px"><img alt="weights%s, query rows down, keys '
                           'across" style="width:160px;height:160px;image-rendering:pixelated;border:1px solid #ccc" '
                           'src="data:image/png;base64,%s"><figcaption>%s</figcaption></figure>'
                           % (" of " + name if name else "", picture, name))
        said = "%d of %d heads, %d query rows, %d keys" % (len(figures), *heads.shape)
        words = "" if not self.tokens else "<details><summary>tokens</summary>%s</details>" \
            % html.escape(" ".join(self.tokens))
        return '<div class="attnd-weights"><p>%s</p>%s%s</div>' % (said, "".join(figures), words)
