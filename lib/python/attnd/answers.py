# SPDX-License-Identifier: Apache-2.0
"""What a daemon answers: faults as exceptions, bodies as safetensors, fields by name."""

import base64
import json
import struct

import numpy as np

from .cache import Cache
from .tensors import _DTYPES, _View, _widened
from .weight_map import WeightMap

__all__ = ["SAFETENSORS", "Answer", "AttndError", "BadRequest", "Conflict", "ConnectionFailed", "DeadlineExceeded",
           "Forbidden", "Gone", "NotFound", "Overloaded", "StorageFailed", "TooLarge", "Unauthorized", "Unavailable"]

class AttndError(Exception):
    """A fault of the daemon, or an answer that is none of a daemon; each kind has a class of its own below this one.

    Fields: status, 0 where no answer came; code, the kind in a word, or ""; message, what is wrong; pointer, the field
    at fault (/requests/1/query), or None; request_id, which the daemon's log has, or None; retry_after, the seconds
    after which a try is worth it, or None. A fault of one item of a batch is what it would be of a call of its own.

    >>> try:
    ...     client.attention([[1, 2]], model="demo")
    ... except attnd.AttndError as fault:
    ...     fault.status, fault.code, fault.pointer
    (400, 'shape', '/query')
    """

    def __init__(self, message, status=0, code="", pointer=None, request_id=None, retry_after=None):
        super().__init__(message)
        self.message, self.status, self.code, self.pointer = message, status, code, pointer
        self.request_id, self.retry_after = request_id, retry_after

    def __str__(self):
        said = " ".join(str(x) for x in (self.status or "", self.code) if x)
        return "%s%s%s" % (said + ": " if said else "", self.message, " at " + self.pointer if self.pointer else "")


class BadRequest(AttndError, ValueError):
    """400 and 415: a field, a shape or a value that the daemon cannot take. It is a ValueError, too."""


class Unauthorized(AttndError, PermissionError):
    """401: no key, or one that the daemon does not know. It is a PermissionError, too."""


class Forbidden(AttndError, PermissionError):
    """403: the key may not do this, or not with this model. It is a PermissionError, too."""


class NotFound(AttndError, LookupError):
    """404: there is no such model, session or path. It is a LookupError, too."""


class Conflict(AttndError):
    """409: what is there already does not go with the request."""


class Gone(AttndError, LookupError):
    """410: a session or a trace that has ended. It is a LookupError, too."""


class TooLarge(AttndError, ValueError):
    """413: the body, or the answer, is larger than the daemon allows. It is a ValueError, too."""


class Overloaded(AttndError):
    """429: too many requests at once, or all that a key may have; worth a try after retry_after seconds."""


class Unavailable(AttndError):
    """503: the daemon starts, ends or has no memory left; worth a try after retry_after seconds, where it says so."""


class DeadlineExceeded(AttndError, TimeoutError):
    """504, or no answer within the client's timeout. It is a TimeoutError, too."""


class ConnectionFailed(AttndError, ConnectionError):
    """Nobody answers at the address, or the connection broke. It is a ConnectionError, too."""


class StorageFailed(AttndError):
    """507: the daemon could not write what it was to keep."""


_FAULTS = {400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 413: TooLarge,
           415: BadRequest, 429: Overloaded, 503: Unavailable, 504: DeadlineExceeded, 507: StorageFailed}
# Codes of other statuses than 400 that an item of a batch can have.
_STATUSES = {"scope": 403, "forbidden": 403, "not_found": 404, "conflict": 409, "gone": 410, "too_large": 413,
             "answer_too_large": 413, "quota": 429, "overloaded": 429, "loading": 503, "memory": 503, "draining": 503,
             "deadline": 504, "storage": 507}


def _fault(said, status=None, retry_after=None):
    """The exception of a fault as an answer has it."""
    code = said.get("code", "")
    status = status or _STATUSES.get(code, 400)
    return _FAULTS.get(status, AttndError)(said.get("error", "the answer has no message"), status, code,
                                           said.get("pointer"), said.get("request_id"), retry_after)


def _seconds(retry_after):
    """Retry-After in seconds; None where there is none, or a date, which the daemon does not send."""
    return float(retry_after) if retry_after and retry_after.strip().isdigit() else None


def _foreign(kind, body):
    """The message about a body that no daemon of attnd sends."""
    return "the answer is %s and none of an attnd daemon: %r" % (kind, bytes(body[:60]).decode("utf-8", "replace"))


# ----------------------------------------------------------------------------------- bodies as safetensors --

SAFETENSORS = "application/x-safetensors"

_TENSOR_DTYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "bool": "BOOL",
                  "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8"}
_ARRAY_DTYPES = {name: kind for kind, name in _TENSOR_DTYPES.items()}
# Fields that are texts; all others are JSON in the metadata.
_TEXTS = {"model", "normalizer", "precision", "text", "pair", "decoder_text", "trace", "session", "owner", "format",
          "attnd", "attnd_session", "dtype", "activation", "transcript", "base_transcript"}
# Fields that are rows of numbers, also where they come as lists.
_ROWS = {"query", "key", "value", "mask", "input", "context_gradient"}


def _is_tensor(value):
    return isinstance(value, np.ndarray) or hasattr(value, "data_ptr") or hasattr(value, "__dlpack__")


def _of_integers(value):
    """A tensor of torch as an array where it holds integers, of which _View knows nothing."""
    if hasattr(value, "data_ptr"):
        name = str(value.dtype).rpartition(".")[2]
        if name in _TENSOR_DTYPES and name not in _DTYPES:
            return value.numpy()
    return value


def _numbers(value, name="tensor"):
    """(name of the dtype, shape, bytes) of a tensor, the bytes without a copy where they lie densely."""
    value = _of_integers(value)
    if isinstance(value, np.ndarray) and value.dtype.name in _TENSOR_DTYPES and value.dtype.name not in _DTYPES:
        value = np.ascontiguousarray(value)
        return _TENSOR_DTYPES[value.dtype.name], value.shape, memoryview(value).cast("B") if value.size else b""
    view = _View(value, name)
    if view.dtype == "bfloat16" and isinstance(view.source, np.ndarray):
        array = np.ascontiguousarray(view.source).view(np.uint16)
    else:
        array = np.ascontiguousarray(view.array())
    return _TENSOR_DTYPES[view.dtype], view.shape, memoryview(array).cast("B") if array.size else b""


def _json(value):
    """JSON of fields, with -inf as null."""
    try:
        return json.dumps(value, default=_json_value, allow_nan=False)
    except ValueError:
        return json.dumps(_without_infinity(value), default=_json_value, allow_nan=False)


def _without_infinity(value):
    """The same with None for each -inf in dicts and lists."""
    if isinstance(value, dict):
        return {name: _without_infinity(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_infinity(item) for item in value]
    return None if isinstance(value, (float, np.floating)) and value == -np.inf else value


def _json_value(value):
    if _is_tensor(value):
        value = _of_integers(value)
        array = value if isinstance(value, np.ndarray) else _View(value).numbers()
        return (np.where(np.isneginf(array), None, array) if array.dtype.kind == "f" else array).tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (bytes, bytearray)):  # a file of sound
        return base64.b64encode(value).decode()
    raise TypeError("%s is no JSON" % type(value).__name__)


def _safetensors(fields):
    """The parts of a safetensors file of the fields that are tensors, with all others in its metadata."""
    header, parts, end = {}, [], 0
    metadata = {}
    for name, value in fields.items():
        if not _is_tensor(value):
            metadata[name] = value if name in _TEXTS and isinstance(value, str) else _json(value)
            continue
        dtype, shape, numbers = _numbers(value, name)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(numbers)]}
        parts.append(numbers)
        end += len(numbers)
    header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)) + text] + parts


def _read_safetensors(body):
    """(tensors, what the answer says besides)."""
    begin = 8 + struct.unpack_from("<Q", body)[0]
    header = json.loads(bytes(body[8:begin]))
    said = {name: value if name in _TEXTS else json.loads(value)
            for name, value in header.pop("__metadata__", {}).items()}
    arrays = {}
    for name, tensor in header.items():
        first, end = tensor["data_offsets"]
        kind = _ARRAY_DTYPES[tensor["dtype"]]
        data = np.frombuffer(body, "<u2" if kind == "bfloat16" else kind, (end - first) //
                             np.dtype("u2" if kind == "bfloat16" else kind).itemsize, begin + first)
        arrays[name] = (_widened(data) if kind == "bfloat16" else data).reshape(tensor["shape"])
    return arrays, said


# What an answer has where `outputs` of the request names it.
_OUTPUTS = {"context", "weights", "scores", "softcapped", "masked", "lse", "inputs", "hidden_states",
            "attention_output", "predictions", "logprobs", "lens", "norms", "rollout", "contributions"}
# What a trace has where a field of the request asks for it.
_ASKED = {"targets": "targets=[{\"token\": ...}]", "base_predictions": "compare=True", "trace": "keep=\"5m\"",
          "logprob_sum": "outputs=['logprobs']", "logprob_spans": "outputs=['logprobs'] and spans"}


class Answer(dict):
    """An answer: a dict of its fields, which are attributes, too. Tensors are numpy arrays, weights WeightMaps.

    Fields: those of the contract; replica, the name of the daemon that gave it; of a trace, attentions and
    hidden_states as transformers name them, tuples over the layers.

    Raises AttributeError, or KeyError for answer["lse"], where a field is not there; for one that was not asked for it
    says how to ask.

    >>> answer = client.attention([[1, 0, 0]], model="demo")
    >>> answer.context.tolist(), answer["layer"], "lse" in answer
    ([[1.0, 1.0, 0.0]], 0, False)
    """

    replica = None

    def _lacks(self, name):
        """What to say where there is no such field."""
        output = {"attentions": "weights", "final_hidden_states": "hidden_states"}.get(name, name)
        ask = "ask for it by outputs=[%r]%s; " % (output, "" if self.get("layers", True) else " and a layer or more") \
            if output in _OUTPUTS else ""
        if name in _ASKED and "layers" in self:
            ask = "ask for it by %s; " % _ASKED[name]
        return "the answer has no %s; %sit has %s" % (name, ask, ", ".join(self) or "nothing")

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(self._lacks(name))
        return self[name]

    def __missing__(self, name):
        raise KeyError(self._lacks(name))

    def _of_layers(self, name, output):
        found = tuple(layer[output] for layer in self.get("layers", ()) if output in layer)
        if not found:
            raise AttributeError(self._lacks(name))
        return found

    @property
    def attentions(self):
        """Of a trace: the weights of each layer."""
        return self._of_layers("attentions", "weights")

    @property
    def hidden_states(self):
        """Of a trace: of each layer what enters it, then what leaves the last one."""
        last = (self["final_hidden_states"],) if "final_hidden_states" in self else ()
        return last if last and not self.get("layers") else self._of_layers("hidden_states", "hidden_states") + last

    @property
    def cache(self):
        """Of a trace: its arrays by TransformerLens' names, a Cache."""
        return Cache(self)


def _token(texts, i, id, **scores):
    """A token as an answer in JSON has it; texts are None of a model without a tokenizer."""
    return dict({"id": id}, **({"text": texts[i]} if texts else {}), **scores)


def _listed_tensors(arrays, name, fields):
    return [arrays["%s.%s" % (name, field)].tolist() for field in fields if "%s.%s" % (name, field) in arrays]


def _predictions(arrays, name, texts):
    """Predictions as an answer in JSON has them."""
    positions, *tensors = _listed_tensors(arrays, name, ("positions", "ids", "logprobs", "differences"))
    return [{"position": position,
             "tokens": [_token(texts and texts[i], k, id, **dict(zip(("logprob", "difference"), scores)))
                        for k, (id, *scores) in enumerate(zip(*of_position))]}
            for i, (position, *of_position) in enumerate(zip(positions, *tensors))]


def _scores(arrays, name, texts):
    """Tokens with their log-probs as an answer in JSON has them; None in place of those that are not there."""
    tensors = _listed_tensors(arrays, name, ("positions", "ids", "logprobs", "ranks", "differences"))
    items = []
    for i, (position, id, logprob, rank, *difference) in enumerate(zip(*tensors)):
        scores = dict(zip(("difference",), difference)) if rank else {}
        items.append(None if id < 0 else dict(position=position, **_token(
            texts, i, id, logprob=logprob if rank else None, rank=rank or None, **scores)))
    return items


def _targets(arrays, texts):
    """The same of targets, with what each is against."""
    targets = _scores(arrays, "targets", texts.get("texts"))
    others = _scores(arrays, "targets.against", texts.get("against", {}).get("texts")) \
        if "targets.against.ids" in arrays else [None] * len(targets)
    for target, other in zip(targets, others):
        if other is not None:
            del other["position"]
            target["against"] = other
            target["logit_difference"] = float(np.float32(target["logprob"]) - np.float32(other["logprob"]))
    return targets


def _logprobs(arrays, texts):
    """The same of log-probs, with the most probable tokens of each where they were asked for."""
    items = _scores(arrays, "logprobs", texts.get("texts"))
    if "logprobs.tokens.ids" in arrays:
        places = _predictions(arrays, "logprobs.tokens", texts.get("tokens", {}).get("texts"))
        for item, place in zip(items[1:], places):
            item["tokens"] = place["tokens"]
    return items


def _contributions(arrays, targets, said):
    """Contributions as an answer in JSON has them: of each target, whose texts they have, the parts by layer."""
    numbers = {name[len("contributions."):]: array.tolist() for name, array in arrays.items()
               if name.startswith("contributions.")}
    layers = sorted(int(name.split(".")[1]) for name in numbers if name.endswith(".heads"))
    items = []
    for i, target in enumerate(targets):
        item = {name: target[name] for name in ("position", "id", "text") if name in target}
        if "against" in target:
            item["against"] = {name: target["against"][name] for name in ("id", "text") if name in target["against"]}
        item.update(logit=numbers["logits"][i], embedding=numbers["embedding"][i], bias=numbers["bias"][i], layers=[])
        for layer in layers:
            parts = {name: numbers["layers.%d.%s" % (layer, name)][i]
                     for name in ("heads", "attention_bias", "feed_forward", "edits")
                     if "layers.%d.%s" % (layer, name) in numbers}
            item["layers"].append(dict({"layer": layer}, **said.get("layers", {}).get(str(layer), {}), **parts))
        items.append(item)
    return items


def _lens(arrays, name, texts):
    """The lens of a layer as an answer in JSON has it: predictions, and beside them targets of their position."""
    places = _predictions(arrays, name, texts.get("texts"))
    if name + ".targets.ids" in arrays:
        scores = _scores(arrays, name + ".targets", texts.get("targets", {}).get("texts"))
        for place in places:
            place["targets"] = [{field: value for field, value in score.items() if field != "position"}
                                for score in scores if score["position"] == place["position"]]
    return places


def _answer(arrays, said):
    """The fields of an answer, with the tensors `layers.3.weights` and `results.0.context` in their places."""
    answer, places = Answer(said), {}
    for name in ("results", "steps", "layers"):
        if isinstance(said.get(name), list):
            answer[name] = [Answer(item) if isinstance(item, dict) else item for item in said[name]]
            places.update({(name, str(item.get("layer", i) if name == "layers" else i)): item
                           for i, item in enumerate(answer[name]) if isinstance(item, dict)})
    if not arrays:
        return answer
    for name in ("predictions", "base_predictions"):
        if name + ".ids" in arrays:
            answer[name] = _predictions(arrays, name, said.get(name))
    for name, of in (("targets", _targets), ("logprobs", _logprobs)):
        if name + ".ids" in arrays:
            answer[name] = of(arrays, said.get(name, {}))
    if "contributions.ids" in arrays:
        answer["contributions"] = _contributions(arrays, answer["targets"], said.get("contributions", {}))
    for name, array in arrays.items():
        parts = name.split(".", 2)
        place, field = (places[tuple(parts[:2])], parts[2]) if tuple(parts[:2]) in places else (answer, name)
        place[field] = _map_of(array, said) if field == "weights" else array if array.ndim else array.item()
    for (name, number), place in places.items():
        if name == "layers" and "lens.ids" in place:
            place["lens"] = _lens(arrays, "layers.%s.lens" % number, place.get("lens", {}))
    return answer


def _map_of(array, said):
    """The weights of an answer, with the texts of its tokens, of which they may be some rows or cells of several."""
    weights = WeightMap(array)
    weights.tokens = [token.get("text", str(token["id"])) for token in said.get("tokens", ())] or None
    return weights


_ARRAYS = {"context", "weights", "scores", "softcapped", "masked", "lse", "inputs", "key_inputs", "hidden_states",
           "attention_output", "final_hidden_states", "encoder_hidden_states", "norms", "norm_spans", "rollout",
           "span_scores"}


def _as_arrays(item):
    """An answer in JSON with arrays for its lists of numbers; null is -inf of scores and lse."""
    if "layers" in item:
        item["layers"] = list(map(Answer, item["layers"]))
    for place in [item] + item.get("layers", []):
        for name in _ARRAYS & set(place):
            if isinstance(place[name], list):
                array = np.asarray(place[name], np.float32)
                place[name] = _map_of(array, item) if name == "weights" else np.nan_to_num(array, nan=-np.inf)
    return item
