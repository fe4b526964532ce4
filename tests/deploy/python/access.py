# SPDX-License-Identifier: Apache-2.0
"""access.py URL CERTIFICATE KEY NARROW - attnd.Client against a daemon with HTTPS and keys.

KEY has the scopes infer and sessions and at most one session, NARROW may call the model demo alone; sessions have
1 MiB, bodies 4 MiB."""

import concurrent.futures
import ssl
import sys
import time

import numpy as np

import attnd
from refusal import expect

url, certificate, key, narrow = sys.argv[1:]
trusted = ssl.create_default_context(cafile=certificate)


def client(key, **options):
    return attnd.Client(url, key, ssl_context=trusted, timeout=200, **options)


# The certificate must be known, and is looked at before any key is sent.
fault = expect(attnd.ConnectionFailed, lambda: attnd.Client(url, key).models())
assert "certificate" in str(fault), fault

# Keys: none, a wrong one, one without a scope or for another model.
full = client(key, model="sdpa")
rows = np.eye(4, dtype=np.float32)
assert full.attention(rows).context.shape == (4, 4)
expect(attnd.Unauthorized, lambda: client(None).models(), status=401, code="key")
expect(PermissionError, lambda: client("of-nobody").models(), status=401)
assert [model["name"] for model in client(narrow).models()] == ["demo"]
expect(attnd.Forbidden, lambda: client(narrow).attention(rows, model="sdpa"), status=403, code="scope")
expect(attnd.Forbidden, lambda: client(narrow).session("demo"), code="scope")
good, bad = client(narrow).batch([{"query": [[1, 0, 0]]}, {"query": [[1, 0, 0]], "model": "sdpa"}], model="demo")
assert good.context.tolist() == [[1, 1, 0]] and isinstance(bad, attnd.Forbidden) and bad.code == "scope"

# A limit is 429 with Retry-After, and a call that waits for it succeeds when there is room.
session = full.session()
fault = expect(attnd.Overloaded, lambda: client(key, retries=0).session("sdpa"), status=429, code="quota")
assert fault.retry_after >= 1 and fault.request_id
pauses = []


def room(seconds):
    """In place of the pause before the next try."""
    pauses.append(seconds)
    session.delete()


time.sleep = room
with full.session() as other:
    assert pauses == [fault.retry_after] and other.id != session.id
    session = other
    # So is a budget that is full, 503. Rows that would never have room are 413.
    half, large = (np.zeros((8, rows, 64), np.float32) for rows in (128, 800))
    hasty = client(key, retries=0).open_session(session.id)
    expect(attnd.TooLarge, lambda: hasty.append(large, large), status=413, code="too_large")
    assert session.info()["kv_len"] == 0
    session.append(half, half)
    fault = expect(attnd.Unavailable, lambda: hasty.append(half, half), status=503, code="memory")
    assert fault.retry_after >= 1
    assert session.info()["kv_len"] == 128
    # The answer to a body that is too large comes before all of it has been sent.
    for connection in (full, client(key)):
        expect(attnd.TooLarge, lambda: connection.attention(np.zeros((8, 8000, 64), np.float32), model="sdpa"),
               status=413, code="too_large")
    assert full.attention(rows).context.shape == (4, 4)
    # Each thread has a connection of its own.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sums = list(pool.map(lambda i: full.attention(rows * i).weights.sum(), range(40)))
    assert np.allclose(sums, 4)
print("ok")
