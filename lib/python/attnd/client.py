# SPDX-License-Identifier: Apache-2.0
"""attnd.Client: the HTTP API of an attnd daemon."""

import http.client
import json
import os
import selectors
import socket
import ssl
import struct
import threading
import time
import urllib.parse

import numpy as np

from .answers import SAFETENSORS, Answer, AttndError, ConnectionFailed, DeadlineExceeded
from .answers import _ROWS, _answer, _as_arrays, _fault, _foreign, _is_tensor, _json, _numbers, _read_safetensors
from .answers import _safetensors, _seconds
from .attention import _axis_of
from .fields import _is_repeatable, _items, _listed, _quoted, _tensor_of, _trace_id, _with_edits
from .sessions import KeptTrace, Session

__all__ = ["Client"]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect("\0" + self._path[1:] if self._path.startswith("@") else self._path)


def _key_of(key):
    """The key without the white space around it, such as the end of a file's line. No message shows any of it."""
    key = key.strip() if key else None
    if key and not all("!" <= letter <= "~" for letter in key):
        raise ValueError("the key holds a space, a control character or one beyond ASCII; expected a key of the daemon")
    return key


class Client:
    """An attnd daemon.

    Parameters: url, http://HOST:PORT, https://HOST:PORT, unix:/PATH or unix:@NAME; key, one of the daemon's; model, the
    one that calls use where they name none; timeout, the seconds that a call takes at most, all tries together;
    retries, how many more tries there are; ssl_context, for certificates of one's own.

    Every call is a method with the fields of the contract as keyword arguments. What the daemon refuses for a while
    (429, 503) is tried again when Retry-After says so, and where sending twice changes nothing, so is a call whose
    connection broke. Each thread has a connection of its own; `with` closes that of this thread.

    Raises ValueError for an address of another form, and for a key with other characters than a key has; white space
    around it, such as the end of a file's line, is left out. Every method raises a subclass of AttndError for what the
    daemon refuses, ConnectionFailed where nobody answers, DeadlineExceeded after timeout seconds, AttndError for an
    answer that is none of an attnd daemon, and TypeError for arguments that no request can have.

    >>> with attnd.Client(url, model="stories260K", timeout=200) as client:
    ...     client.detokenize([403, 407])
    'Once upon'
    """

    def __init__(self, url="http://127.0.0.1:8080", key=None, model=None, timeout=60.0, retries=3, ssl_context=None):
        self.url, self.model, self.timeout, self.retries = url, model, timeout, retries
        self._key, self._ssl, self._local = _key_of(key), ssl_context, threading.local()
        self._unix = url[5:] if url.startswith("unix:") else None
        parts = urllib.parse.urlsplit(url)
        if self._unix is None and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("the address is %r; expected http://HOST:PORT, https://HOST:PORT or unix:/PATH" % url)
        self._scheme, self._host = parts.scheme, parts.hostname
        self._port, self._prefix = (parts.port, parts.path.rstrip("/")) if self._unix is None else (None, "")

    def __repr__(self):
        return "Client(%r, model=%r)" % (self.url, self.model)

    def _connection(self):
        connection = getattr(self._local, "connection", None)
        if connection is not None and connection.sock is not None and _is_over(connection.sock):
            connection.close()
        if connection is None:
            if self._unix is not None:
                connection = _UnixConnection(self._unix, self.timeout)
            elif self._scheme == "https":
                connection = http.client.HTTPSConnection(self._host, self._port, timeout=self.timeout,
                                                         context=self._ssl or ssl.create_default_context())
            else:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=self.timeout)
            self._local.connection = connection
        return connection

    def close(self):
        """Closes the connection of this thread; the next call opens another. Returns and raises nothing.

        >>> client.close()
        """
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _exchange(self, method, path, parts, headers, left):
        """One try: (status, headers, body). An answer that comes before all of the body has been sent counts."""
        connection = self._connection()
        connection.timeout = left
        if connection.sock is not None:
            connection.sock.settimeout(left)
        try:
            try:
                connection.request(method, self._prefix + path, iter(parts) if parts else None, headers)
            except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                if connection.sock is None:
                    raise
            response = connection.getresponse()
            return response.status, response.headers, _body_of(response)
        except BaseException:
            self.close()
            raise

    def _call(self, method, path, parts=(), content_type=None, accept=None, is_pure=True, replica=None):
        headers = {"Content-Length": str(sum(map(len, parts)))} if parts or method in ("POST", "PATCH") else {}
        for name, value in (("Content-Type", content_type), ("Accept", accept), ("Attnd-Replica", replica),
                            ("Authorization", "Bearer " + self._key if self._key else None)):
            if value:
                headers[name] = value
        end, tries = time.monotonic() + self.timeout, 0
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise DeadlineExceeded("no answer came within %g s" % self.timeout)
            headers["X-Timeout-Ms"] = "%.3f" % (left * 1e3)
            pause = 0.0
            try:
                status, said, body = self._exchange(method, path, parts, headers, left)
                if status < 300:
                    return said, body if status != 204 else None
                fault = self._fault_of(status, said, body)
                is_sure = is_pure or fault.request_id is not None
                pause = fault.retry_after
                if status not in (429, 503) or pause is None or not is_sure:
                    raise fault
            except TimeoutError as error:
                if isinstance(error, AttndError):
                    raise
                raise DeadlineExceeded("no answer came within %g s" % self.timeout) from None
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, AttndError):
                    raise
                fault = ConnectionFailed("%s: %s: %s" % (self.url, type(error).__name__, error))
                if not is_pure or isinstance(error, ssl.SSLCertVerificationError):
                    raise fault from error
                pause = 0.05 * 2 ** tries if tries else 0.0
            tries += 1
            if tries > self.retries or time.monotonic() + pause > end:
                raise fault
            time.sleep(pause)

    @staticmethod
    def _fault_of(status, headers, body):
        try:
            said = json.loads(body)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            said = {"error": _foreign(headers.get_content_type(), body)}
        if status < 400:
            said = {"error": "what is at the address has moved to %s; a Client does not follow" % headers["Location"]}
        return _fault(said, status, _seconds(headers.get("Retry-After")))

    def request(self, method, path, fields=None, binary=True, is_pure=True, replica=None):
        """A request of any path.

        Parameters: method and path; fields, a dict that becomes JSON, or with tensors among them a safetensors file;
        binary, whether tensors may go and come as bytes; is_pure, whether it may be sent again where no answer came;
        replica, the daemon behind a balancer that it is for.

        Returns an Answer. Raises as every method of a Client.

        >>> client.request("GET", "/livez")
        {'live': True}
        """
        parts, kind = self._body(fields, binary)
        return self._answer(*self._call(method, path, parts, kind, SAFETENSORS if binary else None, is_pure, replica))

    @staticmethod
    def _body(fields, binary):
        """(parts, content type) of what is sent: JSON, or with tensors among the fields a safetensors file."""
        if fields is None:
            return (), None
        fields = {name: _tensor_of(value, name) if binary and name in _ROWS else value
                  for name, value in fields.items() if value is not None}
        if binary and any(map(_is_tensor, fields.values())):
            return _safetensors(fields), SAFETENSORS
        return [_json(fields).encode()], "application/json"

    def _answer(self, said, body):
        kind = said.get_content_type()
        try:
            if kind == SAFETENSORS:
                answer = _answer(*_read_safetensors(body))
            else:
                answer = Answer() if body is None else _answer({}, _object(json.loads(body)))
        except (ValueError, LookupError, TypeError, struct.error) as error:
            raise AttndError("%s: %s" % (self.url, _foreign(kind, body or b"")), 200) from error
        answer.replica = said.get("Attnd-Replica")
        return answer

    # ------------------------------------------------------------------------------------------ calls --

    def attention(self, query, key=None, value=None, mask=None, **fields):
        """POST /v1/attention: rows through one layer.

        Parameters: query, key, value and mask, arrays, tensors or lists; all other fields of the contract by name,
        such as model, layer, outputs, causal, weight_map.

        Returns an Answer with context, weights, or what outputs names. Raises BadRequest for shapes and fields,
        NotFound for a model that is not there.

        >>> client.attention([[1, 0, 0], [0, 1, 0]], model="demo", outputs=["lse"]).lse.shape
        (1, 2)
        """
        return self.request("POST", "/v1/attention", self._with_model(fields, query=query, key=key, value=value,
                                                                      mask=mask))

    def gradients(self, query, context_gradient, key=None, value=None, mask=None, **fields):
        """POST /v1/attention/gradients: what a change of each number does to the context.

        Parameters: those of attention(), and context_gradient, of the context's shape.

        Returns an Answer with query, key, value, mask where they were given, and the parameters under their names.
        Raises BadRequest for shapes and fields.

        >>> client.gradients(np.eye(2, 3), np.ones((2, 3)), model="demo").query.shape
        (2, 3)
        """
        return self.request("POST", "/v1/attention/gradients", self._with_model(
            fields, query=query, context_gradient=context_gradient, key=key, value=value, mask=mask))

    def merge(self, parts, **fields):
        """POST /v1/attention/merge: context and lse over all keys, from those of parts of the keys.

        Parameters: parts, answers to attention(..., partial=True), or dicts with context and lse; other fields by name.

        Returns an Answer with context and lse. Raises BadRequest for parts that do not go together.

        >>> x = np.eye(3, dtype=np.float32)
        >>> parts = [client.attention(x, x[at], x[at], model="sdpa", partial=True) for at in (slice(1), slice(1, 3))]
        >>> client.merge(parts, model="sdpa").context.shape
        (3, 3)
        """
        for i, part in enumerate(parts):
            fields.update({"parts.%d.%s" % (i, name): _tensor_of(part[name]) for name in ("context", "lse")})
        return self.request("POST", "/v1/attention/merge", self._with_model(fields))

    def batch(self, requests, **fields):
        """POST /v1/attention/batch: many calls of attention() at once.

        Parameters: requests, dicts of the fields of attention(); fields by name are those of all.

        Returns a list with an Answer for each, or the AttndError, which is not raised. Raises TypeError for an item
        that is no dict, BadRequest for what is wrong with all.

        >>> [answer.lse.tolist() for answer in client.batch([{"query": [[0, 0, 0]]}], model="demo", outputs=["lse"])]
        [[[0.0]]]
        """
        return self._results(self.request("POST", "/v1/attention/batch", self._with_model(
            fields, requests=_items(requests)), binary=False))

    def softmax(self, input, axis=-1, kv_len=None, *, dim=None):
        """POST /v1/softmax.

        Parameters: input, an array, tensor or list; axis, or dim as torch calls it; kv_len, how many numbers of each
        row count.

        Returns an array of float32; a row of nothing but -inf gives zeros. Raises BadRequest for an axis that is not
        there.

        >>> client.softmax([[0, 0], [0, -np.inf]]).tolist()
        [[0.5, 0.5], [1.0, 0.0]]
        """
        fields = {"input": _tensor_of(input), "axis": _axis_of(axis, dim), "kv_len": kv_len}
        return np.asarray(self.request("POST", "/v1/softmax", fields, binary=False).output, np.float32)

    def trace(self, text=None, **fields):
        """POST /v1/trace: a text through a whole model.

        Parameters: text, or tokens=[ids], or what else the model takes, sound also as the bytes of a WAV file; layers,
        outputs, weight_map, keep and all other fields by name. Of edits, a list of dicts, the numbers of add, set and
        weights may be arrays, and a trace that rows are from an answer or a KeptTrace. targets asks for log-probs of
        tokens, compare=True also for what is different without the edits, and states=True keeps rows for edits.

        Returns an Answer with tokens, layers, predictions, targets, and attentions and hidden_states as transformers
        name them: what outputs names, or the weights; cache has them by the names of TransformerLens. Raises
        BadRequest for fields, NotFound for a model that is not there, TypeError for edits that are no dicts.

        >>> client.trace("Once upon a time").attentions[1].head(4)[4].round(3)
        array([0.058, 0.015, 0.82 , 0.067, 0.04 ], dtype=float32)
        >>> without = client.trace("One day", layers=[], targets=[{"token": ","}], compare=True,
        ...                        edits=[{"layers": [4], "at": "feed_forward", "scale": 0}])
        >>> round(without.targets[0]["difference"], 3)
        -0.355
        """
        return self.request("POST", "/v1/trace", self._with_model(_with_edits(fields), text=text))

    def logprobs(self, text=None, **fields):
        """POST /v1/trace: how probable each token of a text is.

        Parameters: those of trace(), which answers no layers unless they are named.

        Returns an Answer with logprobs, one of each token by those before it, and logprob_sum, with spans also
        logprob_spans. Raises BadRequest for a model that does not go on with a text.

        >>> answer = client.logprobs("One day")
        >>> [(token["text"], token["rank"]) for token in answer.logprobs], round(answer.logprob_sum, 3)
        ([('<s>', None), ('▁One', 2), ('▁day', 1)], -1.894)
        """
        fields = dict(fields, outputs=[*fields.get("outputs", ()), "logprobs"])
        fields.setdefault("layers", [])
        return self.trace(text, **fields)

    def effects(self, text=None, metric=None, each="heads", **fields):
        """POST /v1/effects: what changes without each part of a pass, in one call.

        Parameters: text, or what else a trace takes; metric, such as {"token": "▁c"}, with position and against by
        choice, or {"divergence": "kl"}; each, "heads", "layers", "feed_forwards", {"rows_of_layers": True}, {"spans":
        [...]} or {"span_texts": [...]}; by, edits, other (a text or a dict of inputs), layers and other fields by name.

        Returns an Answer with effects, an array of edited less unedited values in nats, [layers][heads] of heads, and
        with base. Raises BadRequest for fields, NotFound for a model that is not there.

        >>> documents = ["Sue saw a cake.", "Tim had a dog."]
        >>> text = " ".join([*documents, "Sue can eat the"])
        >>> client.effects(text, {"token": "▁c"}, {"span_texts": documents}).effects.round(1)
        array([-2.1,  0.3], dtype=float32)
        """
        other = {"text": fields["other"]} if isinstance(fields.get("other"), str) else fields.get("other")
        fields = self._with_model(_with_edits(fields), text=text, metric=metric, each=each, other=other)
        answer = self._answer(*self._call("POST", "/v1/effects", *self._body(fields, True), "application/json"))
        answer["effects"] = np.asarray(answer.effects, np.float32)
        return answer

    def complete(self, prompt, **fields):
        """POST /v1/completions: a model goes on with a text.

        Parameters: prompt, a text, a list of texts, of ids, or of lists of ids; max_tokens, temperature, seed, stop,
        logprobs and other fields by name.

        Returns an Answer with choices, one for each prompt, whose text is what follows. Raises BadRequest for a model
        that does not go on with a text, and where there is no room for a token.

        >>> client.complete("Once upon a time", max_tokens=8).choices[0].text
        ', there was a little girl'
        """
        prompt = prompt.tolist() if isinstance(prompt, np.ndarray) else prompt
        answer = self.request("POST", "/v1/completions", self._with_model(fields, prompt=prompt), binary=False)
        answer["choices"] = list(map(Answer, answer.choices))
        return answer

    def trace_batch(self, requests, **fields):
        """POST /v1/trace/batch: many texts at once.

        Parameters: requests, texts, or dicts of the fields of trace(); fields by name are those of all.

        Returns a list with an Answer for each, or the AttndError, which is not raised. Raises TypeError for an item
        that is neither, BadRequest for what is wrong with all.

        >>> [len(answer.tokens) for answer in client.trace_batch(["Once", {"text": "One day"}], layers=[0])]
        [2, 3]
        """
        requests = [_with_edits(item, binary=False) for item in _items(requests, "text")]
        return self._results(self.request("POST", "/v1/trace/batch", self._with_model(
            _with_edits(fields, binary=False), requests=requests), binary=False))

    def kept_trace(self, trace):
        """What the daemon keeps of a trace for a while.

        Parameters: trace, the answer to trace(..., keep="5m"), or its id. Returns a KeptTrace. Raises KeyError for an
        answer of which nothing is kept.

        >>> kept = client.kept_trace(client.trace("Once", layers=[0], outputs=[], keep="1m"))
        >>> kept.delete()
        """
        return KeptTrace(self, _trace_id(trace))

    def tokenize(self, text, **fields):
        """POST /v1/tokenize.

        Parameters: text; model, pair and other fields by name. Returns the list of tokens, dicts with id, text, start
        and end. Raises BadRequest where the model has no tokenizer.

        >>> [token["id"] for token in client.tokenize("Once upon")]
        [1, 403, 407]
        """
        return self.request("POST", "/v1/tokenize", self._with_model(fields, text=text), binary=False).tokens

    def detokenize(self, tokens, **fields):
        """POST /v1/detokenize.

        Parameters: tokens, ids; model by name. Returns the text. Raises BadRequest for ids that the model does not
        have.

        >>> client.detokenize([403, 407])
        'Once upon'
        """
        fields = self._with_model(fields, tokens=[int(token) for token in tokens])
        return self.request("POST", "/v1/detokenize", fields, binary=False).text

    def models(self):
        """GET /v1/models. Returns the list of what is served, dicts with name and state. Raises as every method.

        >>> "stories260K" in [model["name"] for model in client.models()]
        True
        """
        return self.request("GET", "/v1/models", binary=False).models

    def describe(self, model=None):
        """GET /v1/models/{model}: its layers, shapes and what it can do.

        Parameters: model, default that of the client. Returns an Answer. Raises NotFound.

        >>> client.describe("demo").name
        'demo'
        """
        return self.request("GET", "/v1/models/" + _quoted(model or self.model), binary=False)

    def put_model(self, name, config, parameters):
        """PUT /v1/models/{model}: makes or replaces a model.

        Parameters: name; config, a dict of attnd's own form; parameters, a dict of arrays by their names.

        Returns an Answer with name and state. Raises BadRequest for a config or shapes that do not fit, Forbidden where
        the daemon lets nobody change its models.

        >>> eye = {name: np.eye(2) for name in ("q_proj.weight", "k_proj.weight", "v_proj.weight")}
        >>> client.put_model("example", {"attention": "scaled_dot_product"}, eye).state
        'READY'
        >>> client.delete_model("example")
        """
        fields = {parameter: _tensor_of(value, parameter) for parameter, value in parameters.items()}
        return self.request("PUT", "/v1/models/" + _quoted(name), dict(fields, attnd=json.dumps(config)))

    def delete_model(self, name):
        """DELETE /v1/models/{model}.

        Parameters: name. Returns nothing. Raises NotFound, and Conflict for one that is built in.

        >>> try:
        ...     client.delete_model("demo")
        ... except attnd.Conflict as fault:
        ...     fault.status
        409
        """
        self.request("DELETE", "/v1/models/" + _quoted(name), binary=False, is_pure=False)

    def session(self, model=None, **fields):
        """POST /v1/sessions: keys and values that stay in the daemon.

        Parameters: model, default that of the client; id, ttl and other fields by name. Returns a Session, which ends
        where a `with` block of it ends. Raises Overloaded and Unavailable where there is no room for it.

        >>> with client.session(ttl="1m") as session:
        ...     session.trace("One day", layers=[]).kv_len
        3
        """
        fields["model"] = model or self.model
        return Session(self, self.request("POST", "/v1/sessions", fields, binary=False, is_pure=False))

    def open_session(self, id):
        """GET /v1/sessions/{session}: a session that is there.

        Parameters: id. Returns its Session. Raises NotFound, and Gone for one that has ended.

        >>> with client.session() as session:
        ...     client.open_session(session.id).kv_len
        0
        """
        return Session(self, self.request("GET", "/v1/sessions/" + _quoted(id), binary=False))

    def load_session(self, file, id=None, model=None):
        """PUT /v1/sessions/{session}: a session of what another held.

        Parameters: file, the bytes that Session.save() gave, the path of a file with them, or a dict of tensors
        [kv_heads, kv_len, head_dim] `layers.0.key`, `layers.0.value`, `layers.1.key` and so on of float32, float16 or
        bfloat16, rotated where the model rotates; id, default one drawn at random; model, of such a dict.

        Returns a Session. Raises BadRequest for what is no such file, Conflict for an id that is there.

        >>> keys = np.ones((2, 5, 4), np.float32)
        >>> with client.load_session({"layers.0.key": keys, "layers.0.value": keys}, model="sdpa") as session:
        ...     session.kv_len
        5
        """
        if isinstance(file, dict):
            dtypes = {_numbers(tensor)[0].lower() for tensor in file.values()}
            parts = _safetensors(dict(file, attnd_session="1", model=model or self.model, dtype=min(dtypes)))
        elif isinstance(file, (bytes, bytearray, memoryview)):
            parts = [file]
        else:
            with open(file, "rb") as stream:
                parts = [stream.read()]
        path = "/v1/sessions/" + _quoted(id or os.urandom(16).hex())
        return Session(self, self._answer(*self._call("PUT", path, parts, SAFETENSORS, is_pure=False)))

    def sessions(self):
        """GET /v1/sessions. Returns the list of what there is, the oldest first, as dicts. Raises as every method.

        >>> with client.session(id="mine"):
        ...     "mine" in [each["session"] for each in client.sessions()]
        True
        """
        return self.request("GET", "/v1/sessions", binary=False).sessions

    def session_batch(self, requests, **fields):
        """POST /v1/sessions/attention: a step of many sessions at once, one a session.

        Parameters: requests, dicts of the fields of Session.attention(), and of `session`, a Session or an id; fields
        by name are those of all.

        Returns a list with an Answer for each, or the AttndError, which is not raised. Raises TypeError for an item
        that is no dict, BadRequest for what is wrong with all.

        >>> x = np.ones((1, 1, 4), np.float32)
        >>> with client.session("sdpa") as one, client.session("sdpa") as other:
        ...     answers = client.session_batch([{"session": each, "query": x, "key": x, "value": x}
        ...                                     for each in (one, other)])
        >>> [answer.kv_len for answer in answers]
        [1, 1]
        """
        items, sessions = _items(requests), {}
        for i, item in enumerate(items):
            session = item.get("session")
            if isinstance(session, Session):
                items[i], sessions[i] = dict(session._placed(item), session=session.id), session
        results = self._results(self.request(
            "POST", "/v1/sessions/attention", _listed("requests", items, fields),
            is_pure=all(map(_is_repeatable, items)), replica=next((s.replica for s in sessions.values()), None)))
        for i, session in sessions.items():
            if not isinstance(results[i], AttndError):
                session._grow(results[i], results[i].kv_len)
        return results

    def _with_model(self, fields, **others):
        if self.model is not None:
            fields.setdefault("model", self.model)
        fields.update(others)
        return fields

    @staticmethod
    def _results(answer):
        return [_fault(item) if "error" in item else _as_arrays(item) for item in answer.results]


def _object(value):
    if not isinstance(value, dict):
        raise TypeError("JSON, but no object")
    return value


def _body_of(response):
    """The body in memory that may be written to, as arrays of it are then."""
    if response.length is None:
        return bytearray(response.read())
    body = bytearray(response.length)
    place, end = memoryview(body), 0
    while end < len(body):
        count = response.readinto(place[end:])
        if count == 0:
            raise http.client.IncompleteRead(bytes(body[:end]), len(body) - end)
        end += count
    response.read()  # what was read by parts is closed by a last one
    return body


def _is_over(sock):
    """Whether the daemon has ended a connection that is idle: then there is something to read, its end."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))
