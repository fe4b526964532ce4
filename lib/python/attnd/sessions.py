# SPDX-License-Identifier: Apache-2.0
"""What stays in the daemon between calls: kept traces, sessions of keys and values."""

import urllib.parse

import numpy as np

from .answers import SAFETENSORS, AttndError, Gone, NotFound, _foreign
from .fields import _appends, _is_repeatable, _items, _listed, _quoted, _with_edits
from .weight_map import WeightMap

__all__ = ["KeptTrace", "Session"]


class KeptTrace:
    """What the daemon keeps of a trace for a while: pieces of its maps, and why a weight is what it is.

    Parameters: client; id, that of the trace. Client.kept_trace() makes one. Every method raises Gone once the daemon
    keeps it no more.

    >>> kept = client.kept_trace(client.trace("Once upon a time", layers=[1], outputs=[], keep="1m"))
    >>> kept.weights(layer=1, head=4, rows=(3, 5)).shape
    (2, 5)
    >>> kept.delete()
    """

    def __init__(self, client, id):
        self.client, self.id = client, id

    def _path(self, name="", **query):
        query = urllib.parse.urlencode({field: value for field, value in query.items() if value is not None})
        return "/v1/traces/%s%s%s" % (_quoted(self.id), "/" + name if name else "", "?" + query if query else "")

    def info(self):
        """Returns an Answer with its model, tokens and layers, what it takes, and when it ends. Raises Gone.

        >>> kept.info().model
        'stories260K'
        """
        return self.client.request("GET", self._path(), binary=False)

    def weights(self, layer, head, rows=None, keys=None, cells=(256, 256), reduce="max"):
        """A piece of a map.

        Parameters: layer; head, a number or "all"; rows and keys, each from the first to before the second number;
        cells, how many rows and keys it has at most; reduce, what is in a cell of several weights, "max" or "mean".

        Returns a WeightMap. Raises BadRequest for what the trace does not have, Gone.

        >>> kept.weights(1, "all", cells=(2, 2)).shape
        (8, 2, 2)
        """
        ranges = {name: "%d:%d" % tuple(ends) for name, ends in (("rows", rows), ("keys", keys)) if ends is not None}
        path = self._path("weights", layer=layer, head=head, cells="%dx%d" % tuple(cells), reduce=reduce, **ranges)
        said, body = self.client._call("GET", path)
        try:
            shape = tuple(map(int, said.get("X-Tile-Shape", "").split("x")))
            return WeightMap(np.frombuffer(body, "<f4").reshape(shape))
        except ValueError as error:
            raise AttndError("%s: %s" % (self.client.url, _foreign(said.get_content_type(), body)), 200) from error

    def statistics(self):
        """Returns a list of the layers, of each the means of each head over its rows: entropy, distance and so on.

        Raises Gone.

        >>> len(kept.statistics()[0]["entropy"])
        8
        """
        return self.client.request("GET", self._path("statistics"), binary=False).layers

    def rollout(self, layer, rows=None):
        """How much of each first row a row of a layer has, if weights say how much of one goes into another.

        Parameters: layer; rows, from the first to before the second number. Returns an array [rows][keys]. Raises
        BadRequest for what the trace does not have, Gone.

        >>> whole = client.kept_trace(client.trace("One day", outputs=[], keep="1m"))
        >>> whole.rollout(2, rows=(1, 3)).shape
        (2, 3)
        """
        rows = None if rows is None else "%d:%d" % tuple(rows)
        answer = self.client.request("GET", self._path("rollout", layer=layer, rows=rows), binary=False)
        return np.asarray(answer.rollout, np.float32)

    def pair(self, layer, head, row, key):
        """Why a weight is what it is.

        Parameters: layer, head, row and key, numbers. Returns an Answer with one score, stage by stage. Raises
        BadRequest for what the trace does not have, Gone.

        >>> round(kept.pair(1, 4, 1, 1).weight, 4)
        0.1513
        """
        return self.client.request("GET", self._path("pair", layer=layer, head=head, row=row, key=key), binary=False)

    def delete(self):
        """Ends it. Returns nothing. Raises Gone.

        >>> client.kept_trace(client.trace("Once", layers=[0], outputs=[], keep="1m")).delete()
        """
        self.client.request("DELETE", self._path(), binary=False)


class Session:
    """Keys and values that stay in the daemon between calls.

    Parameters: client; said, what the daemon answered. Client.session(), open_session() and load_session() make one,
    and `with` ends it. Each call that appends says at which length (`at`), so that one whose connection broke is sent
    again without appending twice. Calls go to the replica that has it. Every method raises Gone once it has ended.

    Fields: id; model; kv_len, its length; layer_kv_len, that of each layer by its number; replica.

    >>> with client.session() as session:
    ...     step = session.trace("One day", layers=[])
    ...     session.kv_len, session.trace(tokens=[432], layers=[]).kv_len
    (3, 4)
    """

    def __init__(self, client, said):
        self.client, self.id, self.model, self.replica = client, said.session, said.get("model"), said.replica
        self._take(said)

    def __repr__(self):
        return "Session(%r, model=%r, kv_len=%d)" % (self.id, self.model, self.kv_len)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.delete()
        except (NotFound, Gone):
            pass

    def _request(self, method, tail="", fields=None, binary=False, is_pure=True):
        return self.client.request(method, self._path + tail, fields, binary, is_pure, self.replica)

    @property
    def _path(self):
        return "/v1/sessions/" + _quoted(self.id)

    def _take(self, said):
        self.kv_len = said["kv_len"]
        self.layer_kv_len = dict(zip(said["layers"], said["layer_kv_len"]))
        return said

    def _placed(self, fields):
        """The fields of a call, with `at` where they append to a layer."""
        layer = fields.get("layer", next(iter(self.layer_kv_len)) if len(self.layer_kv_len) == 1 else None)
        if layer in self.layer_kv_len and _appends(fields):
            fields = dict({"at": self.layer_kv_len[layer]}, **fields)
        return fields

    def _grow(self, answer, kv_len):
        self.kv_len, self.layer_kv_len[answer.layer] = kv_len, answer.layer_kv_len
        return answer

    def attention(self, query=None, key=None, value=None, mask=None, **fields):
        """POST /v1/sessions/{session}/attention: appends key and value, and attends with query to all that is there.

        Parameters: those of Client.attention(); append=False drops key and value behind the call. Returns an Answer
        with kv_len and what outputs names. Raises BadRequest for shapes, Conflict where `at` is not its length.

        >>> x = np.ones((1, 1, 4), np.float32)
        >>> with client.session("sdpa") as session:
        ...     session.attention(x, x, x, outputs=["context"]).context.shape
        (1, 4)
        """
        fields = self._placed(dict(fields, query=query, key=key, value=value, mask=mask))
        answer = self._request("POST", "/attention", fields, True, _is_repeatable(fields))
        return self._grow(answer, answer.kv_len)

    def append(self, key, value, **fields):
        """Appends keys and values, and attends with nothing.

        Parameters: key and value; other fields of attention() by name. Returns an Answer with kv_len. Raises as
        attention() does.

        >>> x = np.ones((1, 3, 4), np.float32)
        >>> with client.session("sdpa") as session:
        ...     session.append(x, x).kv_len
        3
        """
        return self.attention(None, key, value, **fields)

    def steps(self, steps, **fields):
        """Calls of attention() of different layers at once: all are done, or none.

        Parameters: steps, dicts of the fields of attention(); fields by name are those of all. Returns a list of
        Answers. Raises TypeError for a step that is no dict, BadRequest and Conflict as attention() does.

        >>> x = np.ones((2, 64), np.float32)
        >>> with client.session() as session:
        ...     answers = session.steps([{"layer": i, "input": x} for i in range(5)], outputs=["context"])
        ...     len(answers), session.kv_len
        (5, 2)
        """
        steps = [self._placed(step) for step in _items(steps)]
        answer = self._request("POST", "/attention", _listed("steps", steps, fields), True,
                               all(map(_is_repeatable, steps)))
        return [self._grow(step, answer.kv_len) for step in answer.steps]

    def trace(self, text=None, **fields):
        """POST /v1/sessions/{session}/trace: the next tokens through the whole model.

        Parameters: text, or tokens=[ids]; other fields of Client.trace() by name. Returns an Answer as that does, with
        kv_len. Raises BadRequest for fields, Conflict where `at` is not its length.

        >>> with client.session() as session:
        ...     session.trace("One day", layers=[], outputs=["predictions"]).predictions[0]["tokens"][0]["text"]
        ','
        """
        fields.setdefault("at", self.kv_len)
        answer = self._request("POST", "/trace", dict(_with_edits(fields), text=text), True)
        self.kv_len = answer.kv_len
        self.layer_kv_len = {layer: answer.kv_len for layer in self.layer_kv_len}
        return answer

    def info(self):
        """Returns an Answer with what the daemon says of it. Raises Gone.

        >>> with client.session() as session:
        ...     session.info().kv_len
        0
        """
        return self._take(self._request("GET"))

    def update(self, **fields):
        """Changes how long it lives.

        Parameters: ttl and evictable, by name. Returns an Answer. Raises BadRequest, Gone.

        >>> with client.session() as session:
        ...     session.update(ttl="1h")["ttl_ms"]
        3600000
        """
        return self._take(self._request("PATCH", "", fields))

    def fork(self, **fields):
        """A new session that shares all that is there.

        Parameters: id and ttl, by name. Returns a Session. Raises Conflict for an id that is there, Overloaded and
        Unavailable where there is no room for it.

        >>> with client.session() as session, session.fork() as branch:
        ...     branch.trace("One day", layers=[]).kv_len, session.kv_len
        (3, 0)
        """
        return Session(self.client, self._request("POST", "/fork", fields, is_pure=False))

    def truncate(self, kv_len):
        """Goes back to an earlier length.

        Parameters: kv_len. Returns the session itself. Raises BadRequest for a length that it does not have.

        >>> with client.session() as session:
        ...     answer = session.trace("One day", layers=[])
        ...     session.truncate(1).kv_len
        1
        """
        self._take(self._request("POST", "/truncate", {"kv_len": int(kv_len)}))
        return self

    def save(self, path=None):
        """All that it holds, for Client.load_session() on any daemon.

        Parameters: path, of a file to write, or None. Returns the bytes of a safetensors file. Raises Gone, and OSError
        for a file that cannot be written.

        >>> with client.session() as session, client.load_session(session.save()) as copy:
        ...     copy.model
        'stories260K'
        """
        said, body = self.client._call("GET", self._path, accept=SAFETENSORS, replica=self.replica)
        if said.get_content_type() != SAFETENSORS:
            raise AttndError("%s: %s" % (self.client.url, _foreign(said.get_content_type(), body)), 200)
        body = bytes(body)
        if path is not None:
            with open(path, "wb") as stream:
                stream.write(body)
        return body

    def delete(self):
        """Ends it. Returns nothing. Raises Gone where it has ended.

        >>> client.session().delete()
        """
        self._request("DELETE")
