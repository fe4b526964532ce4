"""attnd.Client: the HTTP API of an attnd daemon."""

import http.client
import json
import os
import selectors
import socket
import ssl
import threading
import time
import urllib.parse

import numpy as np

from .answers import SAFETENSORS, Answer, AttndError, ConnectionFailed, DeadlineExceeded, Gone, NotFound
from .answers import _ROWS, _answer, _fault, _is_tensor, _json, _numbers, _read_safetensors, _safetensors, _seconds
from .answers import _texts
from .weight_map import WeightMap


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect("\0" + self._path[1:] if self._path.startswith("@") else self._path)


class Client:
    """An attnd daemon at http://HOST:PORT, https://HOST:PORT, unix:/PATH or unix:@NAME.

    key is a key of the daemon; model the one that calls use where they name none. A call takes at most timeout
    seconds, all tries together. What the daemon refuses for a while (429, 503) is tried again, up to retries times,
    when Retry-After says so, and where sending twice changes nothing, so is a call whose connection broke. Each
    thread has a connection of its own. Faults are AttndError and its subclasses.
    """

    def __init__(self, url="http://127.0.0.1:8080", key=None, model=None, timeout=60.0, retries=3, ssl_context=None):
        self.url, self.model, self.timeout, self.retries = url, model, timeout, retries
        self._key, self._ssl, self._local = key, ssl_context, threading.local()
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
        """Closes the connection of this thread."""
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
            return response.status, response.headers, response.read()
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
                if status < 400:
                    return said, body
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
        return _fault(said if isinstance(said, dict) else {}, status, _seconds(headers.get("Retry-After")))

    def request(self, method, path, fields=None, binary=True, is_pure=True, replica=None):
        """A request of any path: fields become JSON, or with tensors among them a safetensors file.

        A request that is_pure may be sent again where no answer came. replica is the daemon behind a balancer.
        """
        parts, kind = (), None
        if fields is not None:
            fields = {name: _tensor_of(value) if binary and name in _ROWS else value
                      for name, value in fields.items() if value is not None}
            if binary and any(map(_is_tensor, fields.values())):
                parts, kind = _safetensors(fields), SAFETENSORS
            else:
                parts, kind = [_json(fields).encode()], "application/json"
        return self._answer(*self._call(method, path, parts, kind, SAFETENSORS if binary else None, is_pure, replica))

    @staticmethod
    def _answer(said, body):
        if said.get_content_type() == SAFETENSORS:
            answer = _answer(*_read_safetensors(body))
        else:
            answer = _answer({}, json.loads(body)) if body else Answer()
        answer.replica = said.get("Attnd-Replica")
        return answer

    # ------------------------------------------------------------------------------------------ calls --

    def attention(self, query, key=None, value=None, mask=None, **fields):
        """POST /v1/attention: an answer with context, weights and what `outputs` asks for. Fields as in the API."""
        return self.request("POST", "/v1/attention", self._with_model(fields, query=query, key=key, value=value,
                                                                      mask=mask))

    def gradients(self, query, context_gradient, key=None, value=None, mask=None, **fields):
        """POST /v1/attention/gradients: query, key, value, and parameters under their names."""
        return self.request("POST", "/v1/attention/gradients", self._with_model(
            fields, query=query, context_gradient=context_gradient, key=key, value=value, mask=mask))

    def merge(self, parts, **fields):
        """POST /v1/attention/merge: context and lse over all keys, from those of parts of the keys (partial=True)."""
        for i, part in enumerate(parts):
            fields.update({"parts.%d.%s" % (i, name): _tensor_of(part[name]) for name in ("context", "lse")})
        return self.request("POST", "/v1/attention/merge", self._with_model(fields))

    def batch(self, requests, **fields):
        """POST /v1/attention/batch: an answer, or the AttndError, for each of requests, which are dicts of fields."""
        return self._results(self.request("POST", "/v1/attention/batch", self._with_model(
            fields, requests=requests), binary=False))

    def softmax(self, input, axis=-1, kv_len=None):
        """POST /v1/softmax."""
        fields = {"input": _tensor_of(input), "axis": axis, "kv_len": kv_len}
        return np.asarray(self.request("POST", "/v1/softmax", fields, binary=False).output, np.float32)

    def trace(self, text=None, **fields):
        """POST /v1/trace: tokens and layers; attentions and hidden_states as transformers name them."""
        return self.request("POST", "/v1/trace", self._with_model(fields, text=text))

    def trace_batch(self, requests, **fields):
        """POST /v1/trace/batch."""
        return self._results(self.request("POST", "/v1/trace/batch", self._with_model(fields, requests=requests),
                                          binary=False))

    def kept_trace(self, trace):
        """The KeptTrace of an answer to trace(..., keep="5m"), or of its id."""
        return KeptTrace(self, trace["trace"] if isinstance(trace, dict) else trace)

    def tokenize(self, text, **fields):
        """POST /v1/tokenize: the tokens, each with id and text."""
        return self.request("POST", "/v1/tokenize", self._with_model(fields, text=text), binary=False).tokens

    def detokenize(self, tokens, **fields):
        """POST /v1/detokenize: the text of ids."""
        fields = self._with_model(fields, tokens=[int(token) for token in tokens])
        return self.request("POST", "/v1/detokenize", fields, binary=False).text

    def models(self):
        """GET /v1/models: what is served."""
        return self.request("GET", "/v1/models", binary=False).models

    def describe(self, model=None):
        """GET /v1/models/{model}."""
        return self.request("GET", "/v1/models/" + _quoted(model or self.model), binary=False)

    def put_model(self, name, config, parameters):
        """PUT /v1/models/{model}: makes or replaces a model of attnd's own config and a dict of tensors."""
        fields = {parameter: _tensor_of(value) for parameter, value in parameters.items()}
        return self.request("PUT", "/v1/models/" + _quoted(name), dict(fields, attnd=json.dumps(config)))

    def delete_model(self, name):
        """DELETE /v1/models/{model}."""
        self.request("DELETE", "/v1/models/" + _quoted(name), binary=False, is_pure=False)

    def session(self, model=None, **fields):
        """POST /v1/sessions: a Session, which ends where a `with` block of it ends."""
        fields["model"] = model or self.model
        return Session(self, self.request("POST", "/v1/sessions", fields, binary=False, is_pure=False))

    def open_session(self, id):
        """GET /v1/sessions/{session}: the Session of an id that is there."""
        return Session(self, self.request("GET", "/v1/sessions/" + _quoted(id), binary=False))

    def load_session(self, file, id=None, model=None):
        """PUT /v1/sessions/{session}: a Session of what save() gave, its bytes or the path of a file with them.

        Or of a dict with tensors [kv_heads, kv_len, head_dim] `layers.0.key`, `layers.0.value`, `layers.1.key` and so
        on of float32, float16 or bfloat16, rotated where the model rotates.
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
        """GET /v1/sessions: what there is, the oldest first, each as a dict."""
        return self.request("GET", "/v1/sessions", binary=False).sessions

    def session_batch(self, requests, **fields):
        """POST /v1/sessions/attention: an answer, or the AttndError, for each of requests, one a session.

        They are dicts of the fields of Session.attention(), and of `session`, a Session or an id.
        """
        items, sessions = list(requests), {}
        for i, item in enumerate(items):
            session = item["session"]
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


def _is_over(sock):
    """Whether the daemon has ended a connection that is idle: then there is something to read, its end."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


_ARRAYS = {"context", "weights", "scores", "softcapped", "masked", "lse", "inputs", "key_inputs", "hidden_states",
           "attention_output", "final_hidden_states", "encoder_hidden_states"}


def _as_arrays(item):
    """An answer in JSON with arrays for its lists of numbers; null is -inf of scores and lse."""
    if "layers" in item:
        item["layers"] = list(map(Answer, item["layers"]))
    for place in [item] + item.get("layers", []):
        for name in _ARRAYS & set(place):
            if isinstance(place[name], list):
                array = np.asarray(place[name], np.float32)
                place[name] = WeightMap(array, _texts(item)) if name == "weights" \
                    else np.nan_to_num(array, nan=-np.inf)
    return item


def _tensor_of(value):
    """Lists of numbers, and integers, as an array of floats; a mask of bool as it is."""
    if value is None or _is_tensor(value) and not (isinstance(value, np.ndarray) and value.dtype.kind in "iu"):
        return value
    array = np.asarray(value)
    return array if array.dtype == bool else array.astype(np.float32)


def _listed(name, items, fields):
    """fields with a list of items under name, whose tensors are fields such as `requests.0.query`."""
    rest = []
    for i, item in enumerate(items):
        item = {field: _tensor_of(value) if field in _ROWS else value for field, value in item.items()}
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


class KeptTrace:
    """What the daemon keeps of a trace for a while: pieces of its maps, and why a weight is what it is."""

    def __init__(self, client, id):
        self.client, self.id = client, id

    def _path(self, name="", **query):
        query = urllib.parse.urlencode({field: value for field, value in query.items() if value is not None})
        return "/v1/traces/%s%s%s" % (_quoted(self.id), "/" + name if name else "", "?" + query if query else "")

    def info(self):
        """Its model, tokens and layers, what it takes, and when it ends."""
        return self.client.request("GET", self._path(), binary=False)

    def weights(self, layer, head, rows=None, keys=None, cells=(256, 256), reduce="max"):
        """The WeightMap of a head, or of "all", of rows and keys from the first to before the second number.

        It has at most so many cells, rows and keys; each is the largest or the "mean" weight in it.
        """
        ranges = {name: "%d:%d" % tuple(ends) for name, ends in (("rows", rows), ("keys", keys)) if ends is not None}
        path = self._path("weights", layer=layer, head=head, cells="%dx%d" % tuple(cells), reduce=reduce, **ranges)
        said, body = self.client._call("GET", path)
        shape = tuple(map(int, said["X-Tile-Shape"].split("x")))
        return WeightMap(np.frombuffer(body, "<f4").reshape(shape))

    def statistics(self):
        """For each layer, of each head, means over its rows: entropy, distance, the first key, and so on."""
        return self.client.request("GET", self._path("statistics"), binary=False).layers

    def pair(self, layer, head, row, key):
        """One score, stage by stage."""
        return self.client.request("GET", self._path("pair", layer=layer, head=head, row=row, key=key), binary=False)

    def delete(self):
        self.client.request("DELETE", self._path(), binary=False)


class Session:
    """Keys and values that stay in the daemon between calls.

    Each call that appends says at which length (`at`), so that one whose connection broke is sent again without
    appending twice. Its length is in kv_len; layer_kv_len has that of each layer by its number. Calls go to the
    replica that has it.
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
        """Appends key and value, and attends with query to all that is there; `append=False` drops them behind."""
        fields = self._placed(dict(fields, query=query, key=key, value=value, mask=mask))
        answer = self._request("POST", "/attention", fields, True, _is_repeatable(fields))
        return self._grow(answer, answer.kv_len)

    def append(self, key, value, **fields):
        """Appends keys and values, and attends with nothing."""
        return self.attention(None, key, value, **fields)

    def steps(self, steps, **fields):
        """Calls of different layers, dicts of the fields of attention(): all are done, or none. A list of answers."""
        steps = [self._placed(step) for step in steps]
        answer = self._request("POST", "/attention", _listed("steps", steps, fields), True,
                               all(map(_is_repeatable, steps)))
        return [self._grow(step, answer.kv_len) for step in answer.steps]

    def trace(self, text=None, **fields):
        """The next tokens (text, or tokens=[ids]) through the whole model."""
        fields.setdefault("at", self.kv_len)
        answer = self._request("POST", "/trace", dict(fields, text=text), True)
        self.kv_len = answer.kv_len
        self.layer_kv_len = {layer: answer.kv_len for layer in self.layer_kv_len}
        return answer

    def info(self):
        """What the daemon says of it, as a dict."""
        return self._take(self._request("GET"))

    def update(self, **fields):
        """Changes ttl and evictable."""
        return self._take(self._request("PATCH", "", fields))

    def fork(self, **fields):
        """A new session that shares all that is there; id and ttl may be given."""
        return Session(self.client, self._request("POST", "/fork", fields, is_pure=False))

    def truncate(self, kv_len):
        """Goes back to an earlier length."""
        self._take(self._request("POST", "/truncate", {"kv_len": int(kv_len)}))
        return self

    def save(self, path=None):
        """The bytes of a safetensors file of it, for load_session() on any daemon; also written to path."""
        body = self.client._call("GET", self._path, accept=SAFETENSORS, replica=self.replica)[1]
        if path is not None:
            with open(path, "wb") as stream:
                stream.write(body)
        return body

    def delete(self):
        self._request("DELETE")
