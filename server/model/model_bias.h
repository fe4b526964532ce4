/* model_bias.h - what a model adds to the scores of a pair by where query and key stand: the
 * relative position bias of T5, by their distance, and of BEiT, by where their patches lie in the
 * picture. */
#ifndef ATTND_MODEL_BIAS_H
#define ATTND_MODEL_BIAS_H

#include "base/fault.h"

#include <stdint.h>

/* Added with the masks. The file has a table of numbers for each head; a pair has the number of one
 * of its rows. */
struct model_relative_bias {
    const float *values; /* [q_heads, count]; NULL: none */
    int64_t count;       /* 2 * reach + 1, or of a picture (2 height - 1)(2 width - 1) + 3 */

    /* By the distance from query to key, -reach to reach; farther ones have the bias of this. */
    int64_t reach;

    /* Above 0: position 0 is a class token, and after it come height rows of width patches. */
    int64_t height, width;

    int64_t table_rows;    /* in the file, */
    const int32_t *row_of; /* [count], and which of them each number is; NULL: the same */
};

/* Which of a head's numbers the pair at these positions has. */
int64_t model_bias_column(const struct model_relative_bias *bias, int64_t query, int64_t key);

/* Whether a call whose rows stand at these positions has a bias for each pair; the fault is length.
 */
bool model_bias_check(const struct model_relative_bias *bias, int64_t first_query, int64_t q_len,
                      int64_t first_key, int64_t kv_len, struct fault *fault);

#endif
