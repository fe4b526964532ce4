# SPDX-License-Identifier: Apache-2.0
"""peer_torch.py - attention by torch, as a child of bench_attention (peer_main.h has the words).

With BENCH_BF16 all tensors are bfloat16. The fused scaled_dot_product_attention where this torch has it, else matmul, softmax, matmul.
"""
import os
import sys
import time

import numpy
import torch


DTYPE = torch.bfloat16 if os.environ.get("BENCH_BF16") else torch.float32


def numbers(shape, which):
    count = int(numpy.prod(shape))
    hashed = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435761) + numpy.uint32(which)
    hashed ^= hashed >> numpy.uint32(16)
    hashed *= numpy.uint32(0x85EBCA6B)
    hashed ^= hashed >> numpy.uint32(13)
    made = hashed.view(numpy.int32).astype(numpy.float32) * numpy.float32(1 / 2147483648)
    return torch.from_numpy((made * numpy.float32(3 if which == 1 else 1.5)).reshape(shape)).to(DTYPE)


def attention(query, key, value, causal):
    heads, rows = query.shape[1], query.shape[2]
    fused = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    group = heads // key.shape[1]
    mask = None
    if causal:
        shape = (rows, key.shape[2])
        mask = torch.full(shape, float("-inf"), dtype=DTYPE).triu(key.shape[2] - rows + 1)
    if group > 1:  # the rows of a group of heads are rows of one product
        query = query.reshape(query.shape[0], key.shape[1], group * rows, query.shape[3])
    keys = key.transpose(-2, -1)
    scale = query.shape[-1] ** -0.5

    def run():
        if fused and group == 1:
            return fused(query, key, value, attn_mask=mask)
        scores = torch.matmul(query * scale, keys)
        if mask is not None:
            scores += mask
        return torch.matmul(torch.softmax(scores, -1), value)

    return run


def main():
    run, threads = None, 1
    for line in sys.stdin:
        words = line.split()
        if words[0] == "shape":
            batch, q_heads, kv_heads, q_len, kv_len, dim, causal, threads = map(int, words[1:])
            if causal and q_heads != kv_heads:
                print("no causal grouped heads", flush=True)
                continue
            torch.set_num_threads(threads)
            run = attention(numbers((batch, q_heads, q_len, dim), 1),
                            numbers((batch, kv_heads, kv_len, dim), 2),
                            numbers((batch, kv_heads, kv_len, dim), 3), causal)
            context = run().double()
            print("ok %.9g %.9g" % (context.sum(), context.abs().sum()), flush=True)
        elif words[0] == "run":
            clock = time.process_time if threads == 1 else time.perf_counter
            seconds = []
            for _ in range(int(words[1])):
                begin = clock()
                run()
                seconds.append("%.9f" % (clock() - begin))
            print("t " + " ".join(seconds), flush=True)


with torch.no_grad():
    main()
