# SPDX-License-Identifier: Apache-2.0
"""local_torch.py - attnd.local beside torch on the same tensors, in turns; medians.

    ATTN_LIBRARY=build/cc/libattn.so.1 PYTHONPATH=lib/python /usr/bin/python3 tests/bench/local_torch.py
"""

import os
import statistics
import sys
import time

import torch

import attnd

SHAPES = [  # batch, heads, rows, keys, head_dim, causal
    (1, 12, 512, 512, 64, False), (1, 12, 512, 512, 64, True), (8, 12, 128, 128, 64, False),
    (1, 8, 2048, 2048, 128, False), (1, 12, 1, 4096, 64, False), (1, 2, 16, 16, 32, False)]
ROUNDS = 15


def torch_attention(query, key, value, causal):
    """torch's fused function where it has one, else the three lines that its page shows."""
    fused = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if fused:
        return fused(query, key, value, is_causal=causal)
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    if causal:
        scores += torch.full(scores.shape[-2:], float("-inf")).triu(1)
    return torch.softmax(scores, -1) @ value


def main():
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    local = attnd.Local(threads=threads)
    print("torch %s, %d threads" % (torch.__version__, threads))
    for batch, heads, rows, keys, dim, causal in SHAPES:
        query, key, value = (torch.randn(batch, heads, n, dim) for n in (rows, keys, keys))
        runs = (lambda: local.scaled_dot_product_attention(query, key, value, is_causal=causal),
                lambda: torch_attention(query, key, value, causal))
        assert (runs[0]() - runs[1]()).abs().max() < 1e-4
        seconds = [[], []]
        for _ in range(ROUNDS):
            for which, run in enumerate(runs):
                begin = time.perf_counter()
                run()
                seconds[which].append(time.perf_counter() - begin)
        own, other = map(statistics.median, seconds)
        print("%d x %d x %d x %d x %d%s: attnd %.3f ms, torch %.3f ms, %.2f x"
              % (batch, heads, rows, keys, dim, " causal" if causal else "", own * 1e3, other * 1e3, other / own))


with torch.no_grad():
    main()
