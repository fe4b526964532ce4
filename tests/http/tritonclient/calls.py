# SPDX-License-Identifier: Apache-2.0
"""The calls that were recorded: calls.py sync|aio HOST:PORT. Ends with 1 and a line for each that went wrong.

The daemon has a model called kept and --model-control explicit."""

import asyncio
import inspect
import sys

import numpy as np
import tritonclient.http
import tritonclient.http.aio
from tritonclient.http import InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

WORDS = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], np.float32)
CONTEXT = np.array(
    [
        [0.98522025, 1.74174051, 0.75652026],
        [0.90965265, 1.40965265, 0.5],
        [0.99851226, 1.75849334, 0.75998108],
        [0.99560386, 1.90407309, 0.90846923],
    ]
)
CAUSAL = np.where(np.tril(np.ones((4, 4), bool)), np.float32(0), np.float32(-np.inf))
HEADS = np.random.default_rng(1).standard_normal((1, 2, 16, 16), np.float32)


def given(name, data, datatype="FP32", binary=True):
    tensor = InferInput(name, list(data.shape), datatype)
    tensor.set_data_from_numpy(data, binary_data=binary)
    return tensor


def query(binary=True):
    return given("query", WORDS, binary=binary)


def asked(name, **options):
    return InferRequestedOutput(name, **options)


def is_near(name, want, tolerance=1e-5):
    return lambda result: np.allclose(result.as_numpy(name).reshape(want.shape), want, atol=tolerance)


def has_shape(name, *shape):
    return lambda result: result.as_numpy(name).shape == shape


IS_TRUE = bool
IS_FALSE = lambda answer: not answer
IS_CONTEXT = is_near("context", CONTEXT)

# A method, its arguments, and a function of what it gives, or the text that its exception has.
CALLS = [
    ("is_server_live", (), {}, IS_TRUE),
    ("is_server_ready", (), {}, IS_TRUE),
    ("is_model_ready", ("demo",), {}, IS_TRUE),
    ("is_model_ready", ("demo", "1"), {}, IS_TRUE),
    ("is_model_ready", ("nobody",), {}, IS_FALSE),
    ("get_server_metadata", (), {}, lambda answer: answer["name"] == "attnd"),
    ("get_model_metadata", ("demo",), {}, lambda answer: answer["name"] == "demo"),
    ("get_model_metadata", ("demo",), {"query_params": {"test_1": 1}}, lambda answer: answer["name"] == "demo"),
    ("get_model_metadata", ("nobody",), {}, "Request for unknown model"),
    ("get_model_config", ("sdpa",), {}, lambda answer: answer["max_batch_size"] == 0),
    ("get_model_repository_index", (), {}, lambda answer: "kept" in [row["name"] for row in answer]),
    ("get_inference_statistics", (), {}, lambda answer: len(answer["model_stats"]) >= 2),
    ("get_inference_statistics", ("demo", "1"), {}, lambda answer: answer["model_stats"][0]["name"] == "demo"),
    ("get_log_settings", (), {}, lambda answer: "log_verbose_level" in answer),
    ("update_log_settings", ({"log_verbose_level": 0},), {}, lambda answer: answer["log_verbose_level"] == 0),
    ("get_trace_settings", (), {}, "there is nothing at /v2/trace"),
    ("load_model", ("kept",), {}, None),
    ("load_model", ("kept",), {"config": '{"parameters": {"config": {{"max_batch_size": "16"}}}}'}, "failed to load"),
    ("load_model", ("wrong_model_name",), {}, "failed to load"),
    ("unload_model", ("kept",), {}, None),
    ("is_model_ready", ("kept",), {}, IS_FALSE),
    ("infer", ("demo", [query()]), {}, IS_CONTEXT),
    ("infer", ("demo", [query()]), {"model_version": "1"}, IS_CONTEXT),
    (
        "infer",
        ("demo", [query()]),
        {"outputs": [asked("context"), asked("weights"), asked("lse")], "request_id": "7"},
        IS_CONTEXT,
    ),
    ("infer", ("demo", [query(False)]), {"outputs": [asked("context")]}, IS_CONTEXT),
    ("infer", ("demo", [query()]), {"outputs": [asked("context", binary_data=False)]}, IS_CONTEXT),
    (
        "infer",
        ("demo", [query(False), given("key", WORDS)]),
        {"outputs": [asked("context", binary_data=False), asked("weights")]},
        IS_CONTEXT,
    ),
    (
        "infer",
        ("demo", [given("query", WORDS.astype(np.float16), "FP16")]),
        {"outputs": [asked("context")]},
        is_near("context", CONTEXT, 2e-3),
    ),
    ("infer", ("demo", [query()]), {"outputs": [asked("weights", class_count=2)]}, has_shape("weights", 1, 4, 2)),
    (
        "infer",
        ("demo", [query()]),
        {
            "outputs": [asked("context")],
            "priority": 1,
            "timeout": 5000000,
            "sequence_id": 7,
            "sequence_start": True,
            "parameters": {"causal": True, "scale": 0.5},
        },
        has_shape("context", 4, 3),
    ),
] + [
    (
        "infer",
        ("demo", [query()]),
        {"outputs": [asked("context")], "request_compression_algorithm": way, "response_compression_algorithm": way},
        IS_CONTEXT,
    )
    for way in ("gzip", "deflate")
] + [
    (
        "infer",
        ("sdpa", [given(name, HEADS) for name in "QKV"]),
        {"outputs": [asked("Y", binary_data=binary)], "response_compression_algorithm": "gzip"},
        has_shape("Y", *HEADS.shape),
    )
    for binary in (False, True)
] + [
    # -inf in a mask: as bytes; not in JSON. In JSON's answer null is NaN.
    (
        "infer",
        ("demo", [query(), given("mask", CAUSAL)]),
        {"outputs": [asked("masked")]},
        lambda result: np.isneginf(result.as_numpy("masked")).sum() == 6,
    ),
    (
        "infer",
        ("demo", [query(), given("mask", CAUSAL)]),
        {"outputs": [asked("masked", binary_data=False)]},
        lambda result: np.isnan(result.as_numpy("masked")).sum() == 6,
    ),
    ("infer", ("demo", [query(), given("mask", CAUSAL, binary=False)]), {}, "in a mask null is -Infinity"),
    (
        "infer",
        ("demo", [query(), given("mask", CAUSAL == 0, "BOOL")]),
        {"outputs": [asked("weights")]},
        lambda result: result.as_numpy("weights").reshape(4, 4)[0, 0] == 1,
    ),
    # Sequences: four rows a request, kept by the daemon.
    *(
        (
            "infer",
            ("demo", [query()]),
            {"outputs": [asked("weights")], "sequence_id": name, "sequence_start": start, "sequence_end": end},
            wanted,
        )
        for name in (1001, "of-strings")
        for start, end, wanted in (
            (True, False, has_shape("weights", 1, 4, 4)),
            (False, False, has_shape("weights", 1, 4, 8)),
            (False, True, has_shape("weights", 1, 4, 12)),
            (False, False, "must specify the START flag on the first request of the sequence"),
        )
    ),
    ("infer", ("nobody", [query()]), {}, "Request for unknown model"),
    ("infer", ("demo", [given("query", WORDS[:, :2])]), {}, "unexpected shape"),
]


async def value_of(result):
    return await result if inspect.isawaitable(result) else result


async def misfit(client, method, arguments, options, wanted):
    """What is wrong with a call; None: nothing."""
    try:
        result = await value_of(getattr(client, method)(*arguments, **options))
    except InferenceServerException as error:
        return None if isinstance(wanted, str) and wanted in error.message() else error.message()
    if isinstance(wanted, str):
        return f"no exception with '{wanted}'"
    return None if wanted is None or wanted(result) else repr(result)


async def main(kind, address):
    module = tritonclient.http.aio if kind == "aio" else tritonclient.http
    client = module.InferenceServerClient(address)
    failed = False
    for method, arguments, options, wanted in CALLS:
        words = await misfit(client, method, arguments, options, wanted)
        if words:
            failed = True
            print(f"{method}{arguments} {options}: {words}")
    await value_of(client.close())
    return failed


sys.exit(asyncio.run(main(*sys.argv[1:])))
