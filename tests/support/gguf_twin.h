/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_twin.h - the open checkpoint of published.h as a GGUF file, as convert_hf_to_gguf.py of
 * llama.cpp writes it: other names, and tensors in another order.
 *
 * Nothing here uses the daemon's tables of architectures. */
#ifndef GGUF_TWIN_H
#define GGUF_TWIN_H

#include <stdbool.h>

struct gguf_twin {
    const char *architecture;

    /* Keys behind the architecture, with a letter for the type as gguf_write.h has it, s for a
     * text, a for a list of flags, "a:attention.sliding_window_pattern=1110", and l for one of
     * integers, "l:attention.head_count_kv=0,2": "I:block_count=2 f:rope.freq_base=500
     * ?:use_parallel_residual=1 s:rope.scaling.type=yarn" */
    const char *keys;

    /* "token_embd.weight=model.embed_tokens.weight blk.#.attn_q.weight=h.#.q.weight/pairs:4": # is
     * the layer. A tensor that the checkpoint has not is left out. What follows "/":
     *
     *   pairs:H    rows of H heads: the first half and the second half of each by turns
     *   groups:G   rows [G, n q, k, v]: all q, then all k, then all v, with n = Q of "groups:G:Q"
     *   turned     transposed
     *   plus       one more
     *   unweave:S:F:C   matrices [C, n] one behind the other: of the columns F, F + S, ... of each
     *              the transpose
     *   rows:F:N   N rows from F on; of "rows:F:N:C" the same of each of matrices [n, C] one behind
     *              the other
     *   rates      -e^x
     *   stack:E    the tensors with @ from 0 to E - 1, one behind the other
     *   heads:H    the same, for tensors of one row: [H, columns] */
    const char *tensors;
    int layers;

    int parts; /* 0: one file at path; else PATH-0000I-of-0000N.gguf */
};

void gguf_twin_write(const struct gguf_twin *twin, const char *path);

#endif
