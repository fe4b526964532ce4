/* gradient.h - the vector-Jacobian product of attention.
 *
 * Given how much something depends on each number of the context, how much does it depend on
 * each number of query, key, value and mask? With G the gradient of the context, P the weights,
 * q, k, v the inputs, and a sum over all query heads that share a key/value head:
 *
 *     value_gradient = P^T . G
 *     dP             = G . v^T
 *     dP             = dropout of dP, value_gradient from the dropout of P, where there is one
 *     delta          = sum over keys of P * dP, one number a row
 *     mask_gradient  = P * (dP - delta)                            summed where the mask broadcasts
 *     dS             = mask_gradient * (1 - tanh^2(scores / softcap))   where softcap > 0
 *     query_gradient = scale * dS . k
 *     key_gradient   = scale * dS^T . q
 *
 * Additive scores, scale * v . tanh(q + k), have the slope 1 - tanh^2 on the way to each feature:
 *
 *     query_gradient[d]           = scale * v[d] * sum over keys of dS * (1 - tanh^2(q[d] + k[d]))
 *     key_gradient[d]             = the same summed over query rows
 *     additive_weight_gradient[d] = scale * sum over rows and keys of dS * tanh(q[d] + k[d])
 *
 * Sparsemax has the same slope for every weight that is not 0 (Martins and Astudillo 2016, section
 * 2.5): with s = 1 where a weight is not 0, else 0, delta is the sum of s * dP over the sum of s, a
 * sink in the support counted, and mask_gradient = s * (dP - delta). What ALiBi subtracts from the
 * masked scores and the sink, which is one of them, have gradients of their own:
 *
 *     alibi_slopes_gradient = -sum over rows and keys of mask_gradient * |p - k|
 *     sinks_gradient        = -sum over rows of the weight of the sink * delta     (s in its place)
 *
 * As in FlashAttention-2 (Dao 2023, algorithm 2) no [q_len, kv_len] map is ever kept: tiles of
 * weights are computed again from the maximum and the sum of their row, so memory grows with the
 * length alone. A pair that is hidden (mask, causal, window, lengths) adds nothing to any gradient,
 * whatever its query, key or value holds, NaN included; a row that sees nothing has gradient 0.
 *
 * Run like a layer (layer.h): every task of a stage must have ended before the first of the next.
 * Between stages the outputs hold sums that are not complete: leave them alone until the last.
 * Equal inputs give equal bits, however many threads run the tasks and whichever gradients are
 * asked for: tasks own disjoint parts of the outputs. */
#ifndef ATTN_GRADIENT_H
#define ATTN_GRADIENT_H

#include "attn.h"

struct attn_gradient_problem {
    /* What was computed; its outputs are not looked at. Query, key, value and a mask of numbers are
     * F32. A softmax_precision of F64 is refused. */
    struct attn_problem attention;

    /* attention.context and attention.lse are there after all, F32, and hold what the forward pass
     * of this very problem answered: then they are not found again, which takes two of seven
     * products. The weights are as exact as exp of a float lse. Sparsemax finds its own. */
    bool has_forward;

    struct attn_tensor context_gradient; /* F32 [batch, q_heads, q_len, v_head_dim] */

    /* Outputs, each optional, F32, of the shape of what they are the gradient of. None may overlap
     * another or an input. mask_gradient takes an F32 mask. */
    struct attn_tensor query_gradient;
    struct attn_tensor key_gradient;
    struct attn_tensor value_gradient;
    struct attn_tensor mask_gradient;
    float *additive_weight_gradient; /* [head_dim] */
    float *alibi_slopes_gradient;    /* [q_heads] */
    float *sinks_gradient;           /* [q_heads] */
};

/* The rounds of the tasks of keys are stages of their own (gradient_keys.c). */
enum { ATTN_GRADIENT_ROUNDS_MAX = 16, ATTN_GRADIENT_STAGES = 1 + ATTN_GRADIENT_ROUNDS_MAX };

/* Borrows the problem's memory and owns nothing. Read the first three fields, leave the rest
 * alone. */
struct attn_gradient_plan {
    int64_t task_count[ATTN_GRADIENT_STAGES]; /* may be 0 */
    size_t scratch_bytes;   /* shared by all tasks of one run, 64-byte aligned; some bytes for each
                               query row, and of additive scores a row of head_dim for each task */
    size_t workspace_bytes; /* what one running task needs besides, 64-byte aligned */

    struct attn_gradient_problem problem;
    const struct attn_kernels *kernels;
    int64_t row_tile, row_width; /* query rows of one task, and the lanes they take */
    int64_t key_tile, key_width; /* the same for tasks of keys */
    int64_t row_tiles;
    int rounds;         /* stages from 1 on, and the parts of queries and of keys of a head: */
    int64_t part_rows;  /* query rows in one, a multiple of other_tile */
    int64_t part_keys;  /* keys in one, a multiple of key_tile */
    int64_t key_tasks;  /* of each round; in stage 1 those of the mask come after, */
    int64_t mask_tasks; /* then one for what is summed over rows */
    int64_t mask_row_tiles;
    int64_t other_tile; /* keys, or query rows, that a tile of lanes meets in one step */
};

/* Check the problem and choose how to run it; errors as of attn_plan_init(), and ATTN_ERR_NO_DATA
 * for the gradient of what the problem does not have. */
enum attn_status attn_gradient_plan_init(struct attn_gradient_plan *plan,
                                         const struct attn_gradient_problem *problem,
                                         const char **where);

/* Run one task. It cannot fail. */
void attn_gradient_run(const struct attn_gradient_plan *plan, int stage, int64_t task,
                       void *scratch, void *workspace);

#endif
