/* SPDX-License-Identifier: Apache-2.0 */
/* gradient.h - the vector-Jacobian product of attention.
 *
 * Given the gradient of a loss with respect to the context, compute its gradients with respect to
 * query, key, value and mask. With G the gradient of the context, P the weights, q, k, v the
 * inputs, and a sum over all query heads that share a key/value head:
 *
 *     value_gradient = P^T . G
 *     dP             = G . v^T
 *     delta          = sum over keys of P * dP, one number a row
 *     mask_gradient  = P * (dP - delta)                            summed where the mask broadcasts
 *     dS             = mask_gradient * (1 - tanh^2(scores / softcap))   where softcap > 0
 *     query_gradient = scale * dS . k
 *     key_gradient   = scale * dS^T . q
 *
 * With dropout, value_gradient uses the weights after dropout, and dP passes through the same
 * dropout.
 *
 * Additive scores, scale * v . tanh(q + k), pass each feature through the slope 1 - tanh^2:
 *
 *     query_gradient[d]           = scale * v[d] * sum over keys of dS * (1 - tanh^2(q[d] + k[d]))
 *     key_gradient[d]             = the same summed over query rows
 *     additive_weight_gradient[d] = scale * sum over rows and keys of dS * tanh(q[d] + k[d])
 *
 * Sparsemax has the same slope for every weight that is not 0 (Martins and Astudillo 2016, section
 * 2.5). With s = 1 where a weight is not 0, else 0: delta is the sum of s * dP over the sum of s,
 * in which a sink in the support counts, and mask_gradient = s * (dP - delta). The ALiBi slopes and
 * the sinks have gradients of their own (for sparsemax, s replaces the weight of the sink):
 *
 *     alibi_slopes_gradient = -sum over rows and keys of mask_gradient * |p - k|
 *     sinks_gradient        = -sum over rows of the weight of the sink * delta
 *
 * As in FlashAttention-2 (Dao 2023, algorithm 2) no [q_len, kv_len] map is stored: tiles of weights
 * are computed again from the maximum and the sum of their row, so memory grows linearly with the
 * length. A hidden pair (mask, causal, window, lengths) adds nothing to any gradient, whatever its
 * query, key or value holds, NaN included; a row that sees nothing has gradient 0.
 *
 * Run it like a layer (layer.h): all tasks of a stage must end before the first task of the next
 * stage starts. Between stages the outputs hold incomplete sums: do not read or write them before
 * the last stage ends. Equal inputs give equal bits, for any number of threads and any choice of
 * gradients: tasks own disjoint parts of the outputs. */
#ifndef ATTN_GRADIENT_H
#define ATTN_GRADIENT_H

#include "attn.h"

struct attn_gradient_problem {
    /* The forward problem; its outputs are ignored unless has_forward is set. Query, key, value and
     * a mask of numbers are F32. A softmax_precision of F64 is refused. */
    struct attn_problem attention;

    /* attention.context and attention.lse are present, F32, and hold what the forward pass of this
     * same problem computed. Then they are not computed again, which saves two of seven products.
     * The weights are as exact as exp of a float lse. Sparsemax computes its own and ignores
     * them. */
    bool has_forward;

    /* NULL, or with has_forward [batch][q_heads][q_len]: no weight of the row is larger. A row of
     * which one key has nearly all weight has scores whose gradients are differences of nearly
     * equal numbers; those of context and lse are not exact enough for them, and where this tells
     * so, the row is measured again. */
    const float *largest_weights;

    struct attn_tensor context_gradient; /* F32 [batch, q_heads, q_len, v_head_dim] */

    /* Outputs, each optional, F32, of the shape of the input whose gradient they are. None may
     * overlap an input or another output. mask_gradient needs an F32 mask. */
    struct attn_tensor query_gradient;
    struct attn_tensor key_gradient;
    struct attn_tensor value_gradient;
    struct attn_tensor mask_gradient;
    float *additive_weight_gradient; /* [head_dim] */
    union {
        float *per_head_gradient[ATTN_PER_HEAD_COUNT]; /* [q_heads] each */
        struct {
#define X(NAME, name, may_be_none) float *name##_gradient;
            ATTN_PER_HEAD_MAP(X)
#undef X
        };
    };
};

/* The rounds of the key tasks are stages of their own (gradient_keys.c). */
enum { ATTN_GRADIENT_ROUNDS_MAX = 16, ATTN_GRADIENT_STAGES = 1 + ATTN_GRADIENT_ROUNDS_MAX };

/* Borrows the problem's memory and owns nothing. */
struct attn_gradient_plan {
    int64_t task_count[ATTN_GRADIENT_STAGES]; /* may be 0 */
    size_t scratch_bytes;   /* shared by all tasks of one run, 64-byte aligned: some bytes for each
                               query row, and for additive scores a row of head_dim for each task */
    size_t workspace_bytes; /* needed besides by each running task, 64-byte aligned */

    uint64_t own[224]; /* as in struct attn_plan */
};

/* Check the problem and choose how to run it. Errors as for attn_plan_init(), and ATTN_ERR_NO_DATA
 * for the gradient of an input that the problem does not have. */
enum attn_status attn_gradient_plan_init(struct attn_gradient_plan *plan,
                                         const struct attn_gradient_problem *problem,
                                         const char **where);

/* Run one task. It cannot fail. */
void attn_gradient_run(const struct attn_gradient_plan *plan, int stage, int64_t task,
                       void *scratch, void *workspace);

#endif
