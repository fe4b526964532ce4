/* model_bias.h - the relative position bias: a number added to each score by the positions of query
 * and key. T5's depends on their distance, BEiT's on where their patches lie in the picture, BERT's
 * on their distance and on the query, or on query and key. */
#ifndef ATTND_MODEL_BIAS_H
#define ATTND_MODEL_BIAS_H

#include "base/fault.h"

#include <stdint.h>

/* Added to the scores together with the masks. The file has a table, [table_rows, q_heads], and
 * each pair of query and key takes its number from one row. */
enum { MODEL_BIAS_HEAD_DIM_MAX = 512 }; /* of a layer whose bias is by_query */

struct model_relative_bias {
    const float *values; /* [q_heads, count], or [count, head_dim] where by_query; NULL: none */
    int64_t count;       /* 2 * reach + 1; of a picture (2 * height - 1) * (2 * width - 1) + 3 */

    /* T5: a number for each distance, key position minus query position, from -reach to reach. A
     * greater distance takes the number at the nearer end. */
    int64_t reach;

    /* BEiT, 0 for others: position 0 is a class token; height rows of width patches follow it. */
    int64_t height, width;

    /* BERT: values are rows for distances, query position minus key position, from -reach to reach,
     * and there is none beyond. A score gains the product of the query and the row, and with by_key
     * that of the key and the row. head_dim is at most MODEL_BIAS_HEAD_DIM_MAX. */
    bool by_query, by_key;

    int64_t table_rows;    /* of the file's table */
    const int32_t *row_of; /* [count]: the table's row for each number; NULL: row i for number i */
};

/* The index, below count, of the number or row for the pair at these positions. */
int64_t model_bias_column(const struct model_relative_bias *bias, int64_t query, int64_t key);

/* Whether there is a number for every pair of a call, whose queries stand at the positions from
 * first_query on and its keys at those from first_key on. The fault is length. */
bool model_bias_check(const struct model_relative_bias *bias, int64_t first_query, int64_t q_len,
                      int64_t first_key, int64_t kv_len, struct fault *fault);

#endif
