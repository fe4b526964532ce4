/* model_bias.c - see model_bias.h.
 *
 * A picture's numbers are in the order of generate_relative_position_index() of transformers'
 * beit/modeling_beit.py: one for each step down and right from a patch to another, then one each
 * for class to patch, patch to class, and class to class. */
#include "model/model_bias.h"

#include <inttypes.h>

static int64_t in_picture(const struct model_relative_bias *bias, int64_t query, int64_t key)
{
    if (query == 0)
        return bias->count - (key == 0 ? 1 : 3);
    if (key == 0)
        return bias->count - 2;
    const int64_t down = (query - 1) / bias->width - (key - 1) / bias->width;
    const int64_t right = (query - 1) % bias->width - (key - 1) % bias->width;
    return (down + bias->height - 1) * (2 * bias->width - 1) + right + bias->width - 1;
}

int64_t model_bias_column(const struct model_relative_bias *bias, int64_t query, int64_t key)
{
    if (bias->height > 0)
        return in_picture(bias, query, key);
    if (bias->by_query)
        return query - key + bias->reach;
    const int64_t distance = key - query;
    if (distance < -bias->reach)
        return 0;
    return (distance > bias->reach ? bias->reach : distance) + bias->reach;
}

static bool check_rows(const struct model_relative_bias *bias, const char *name,
                       const char *pointer, int64_t first, int64_t count, struct fault *fault)
{
    const int64_t positions = bias->height * bias->width + 1;
    return (first >= 0 && count <= positions && first <= positions - count)
           || fault_set_at(fault, pointer, FAULT_LENGTH,
                           "%s has %" PRId64 " rows from position %" PRId64
                           " on; this layer's bias is for %" PRId64
                           " of them, a class token and %" PRId64 " by %" PRId64 " patches",
                           name, count, first, positions, bias->height, bias->width);
}

static bool check_reach(const struct model_relative_bias *bias, int64_t last, int64_t first,
                        struct fault *fault)
{
    return last - first <= bias->reach
           || fault_set_at(fault, "/query", FAULT_LENGTH,
                           "rows of query and key are up to %" PRId64
                           " positions apart; this layer has relative positions to %" PRId64,
                           last - first, bias->reach);
}

bool model_bias_check(const struct model_relative_bias *bias, int64_t first_query, int64_t q_len,
                      int64_t first_key, int64_t kv_len, struct fault *fault)
{
    if (bias->by_query)
        return check_reach(bias, first_query + q_len - 1, first_key, fault)
               && check_reach(bias, first_key + kv_len - 1, first_query, fault);
    return bias->height == 0
           || (check_rows(bias, "query", "/query", first_query, q_len, fault)
               && check_rows(bias, "key", "/key", first_key, kv_len, fault));
}
