# SPDX-License-Identifier: Apache-2.0
"""peer_torch_bert.py - BERT's forward with all maps by torch, as a child of load_trace.

It is what transformers computes with output_attentions=True and attn_implementation="eager". In the
words of peer_main.h a batch is so many layers, of q_heads * head_dim columns and a feed-forward of
four times as many; the sums are those of the last layer's map.
"""
import sys
import time

import torch

VOCABULARY, POSITIONS, TYPES, WIDENING = 30522, 4096, 2, 4


class Layer(torch.nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            torch.nn.Linear(width, width) for _ in range(4))
        self.up = torch.nn.Linear(width, WIDENING * width)
        self.down = torch.nn.Linear(WIDENING * width, width)
        self.attention_norm = torch.nn.LayerNorm(width, eps=1e-12)
        self.output_norm = torch.nn.LayerNorm(width, eps=1e-12)

    def split(self, rows):
        return rows.view(rows.shape[0], rows.shape[1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, rows):
        query, key = self.split(self.query(rows)), self.split(self.key(rows))
        value = self.split(self.value(rows))
        scores = torch.matmul(query, key.transpose(-1, -2)) * query.shape[-1] ** -0.5
        weights = torch.softmax(scores, dim=-1)
        context = torch.matmul(weights, value).permute(0, 2, 1, 3).contiguous().view(rows.shape)
        rows = self.attention_norm(self.output(context) + rows)
        return self.output_norm(self.down(torch.nn.functional.gelu(self.up(rows))) + rows), weights


class Bert(torch.nn.Module):
    def __init__(self, layers, heads, width):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, width)
        self.positions = torch.nn.Embedding(POSITIONS, width)
        self.types = torch.nn.Embedding(TYPES, width)
        self.norm = torch.nn.LayerNorm(width, eps=1e-12)
        self.layers = torch.nn.ModuleList(Layer(heads, width) for _ in range(layers))

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1])
        rows = self.words(tokens) + self.positions(positions) + self.types(torch.zeros_like(tokens))
        rows = self.norm(rows)
        maps = []
        for layer in self.layers:
            rows, weights = layer(rows)
            maps.append(weights)
        return rows, maps


def main():
    model, tokens, threads = None, None, 1
    for line in sys.stdin:
        words = line.split()
        if words[0] == "shape":
            layers, heads, _, length, _, head_dim, _, threads = map(int, words[1:])
            torch.set_num_threads(threads)
            torch.manual_seed(1)
            model = Bert(layers, heads, heads * head_dim).eval()
            tokens = torch.randint(VOCABULARY, (1, length))
            weights = model(tokens)[1][-1].double()
            print("ok %.9g %.9g" % (weights.sum(), weights.abs().sum()), flush=True)
        elif words[0] == "run":
            clock = time.process_time if threads == 1 else time.perf_counter
            seconds = []
            for _ in range(int(words[1])):
                begin = clock()
                model(tokens)
                seconds.append("%.9f" % (clock() - begin))
            print("t " + " ".join(seconds), flush=True)


with torch.no_grad():
    main()
