/* SPDX-License-Identifier: Apache-2.0 */
/* layer_cache.c - a cache of keys and values around a layer's call: its checks, and the stage that
 * appends the call's own rows to it. */
#include "base/convert.h"
#include "base/internal.h"
#include "layer/layer_internal.h"

static const struct attn_tensor_names KEY = ATTN_TENSOR_NAMES("cache.key");
static const struct attn_tensor_names VALUE = ATTN_TENSOR_NAMES("cache.value");

/* Columns that pass through a local buffer at a time. */
enum { PIECE = 256 };

static bool is_cached_dtype(enum attn_dtype dtype)
{
    return attn_numbers_of(dtype) != ATTN_NUMBERS_COUNT;
}

/* Does a page of I8 have room for a row of the call? Rows come as floats. */
static bool takes_rows_as_i8(const struct attn_tensor *side, int64_t length)
{
    const struct attn_pages *pages = side->pages;

    for (int64_t i = 0; side->dtype == ATTN_I8 && pages != NULL && i < pages->count; i++) {
        const int64_t end = i + 1 < pages->count ? pages->list[i + 1].first : side->shape[2];
        if (pages->list[i].scale != NULL && end > length)
            return true;
    }
    return false;
}

/* attn_check() has the rules of pages and strides. */
static enum attn_status check_side(const struct attn_operand *operand,
                                   const struct attn_tensor *side, int64_t length,
                                   const struct attn_tensor_names *names, const char **where)
{
    RETURN_IF(!is_cached_dtype(side->dtype) && side->dtype != ATTN_I8, ATTN_ERR_DTYPE,
              names->dtype);
    RETURN_IF(!is_cached_dtype(operand->input->dtype), ATTN_ERR_DTYPE, operand->names->dtype);
    RETURN_IF(side->shape[0] != 1, ATTN_ERR_SHAPE, names->shape[0]);
    RETURN_IF(side->shape[1] != operand->heads, ATTN_ERR_SHAPE, names->shape[1]);
    RETURN_IF(side->shape[2] - length != operand->input->shape[2], ATTN_ERR_SHAPE, names->shape[2]);
    RETURN_IF(side->shape[3] != operand->head_dim && !(operand->is_of_key && side->shape[3] == 0),
              ATTN_ERR_SHAPE, names->shape[3]);
    RETURN_IF(takes_rows_as_i8(side, length), ATTN_ERR_DTYPE, names->pages);
    return ATTN_OK;
}

enum attn_status attn_layer_check_cache(const struct attn_layer_problem *problem,
                                        const char **where)
{
    const struct attn_layer_cache *cache = problem->cache;
    struct attn_operand operands[ATTN_OPERAND_COUNT];
    int64_t end;

    if (cache == NULL)
        return ATTN_OK;
    attn_layer_operands(problem, operands);
    RETURN_IF(cache->length < 0, ATTN_ERR_LENGTH, "cache.length");
    RETURN_IF(__builtin_add_overflow(problem->kv_offset, cache->length, &end), ATTN_ERR_LENGTH,
              "cache.length");
    RETURN_IF_FAILED(check_side(&operands[1], &cache->key, cache->length, &KEY, where));
    RETURN_IF(cache->value.shape[3] == 0 && cache->key.dtype == ATTN_I8, ATTN_ERR_DTYPE, KEY.dtype);
    return check_side(&operands[2], &cache->value, cache->length, &VALUE, where);
}

static int64_t chunks_of(const struct attn_operand *operand)
{
    return attn_divide_up(operand->input->shape[2], ATTN_LAYER_CHUNK_ROWS);
}

int64_t attn_layer_append_tasks(const struct attn_layer_problem *problem)
{
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    if (problem->cache == NULL)
        return 0;
    attn_layer_operands(problem, operands);
    return chunks_of(&operands[1])
           + (problem->cache->value.shape[3] > 0 ? chunks_of(&operands[2]) : 0);
}

/* The operand's rows of the call as attention would read them: in scratch, or the caller's. */
static struct attn_tensor rows_of(const struct attn_operand *operand, float *prepared,
                                  int64_t row_columns)
{
    if (!operand->is_prepared)
        return attn_operand_caller_view(operand);
    return attn_tensor_rows(prepared, ATTN_F32, 1, operand->heads, operand->input->shape[2],
                            operand->head_dim, row_columns);
}

static void append_row(const struct attn_kernels *kernels, const struct attn_tensor *rows,
                       int64_t head, int64_t row, const struct attn_tensor *side, int64_t place)
{
    const struct attn_run run = attn_tensor_run(side, 0, head, place, 1);
    const int64_t bytes = (int64_t)attn_dtype_size(run.dtype);
    char *to = (char *)(uintptr_t)run.row;
    float piece[PIECE];

    for (int64_t d = 0; d < side->shape[3]; d += PIECE) {
        const struct attn_block block = { .head = head,
                                          .row = row,
                                          .row_count = 1,
                                          .column = d,
                                          .columns = attn_min(PIECE, side->shape[3] - d) };
        int64_t stride;
        attn_narrow(kernels, attn_block_read(kernels, rows, &block, piece, &stride), run.dtype,
                    block.columns, to + d * bytes);
    }
}

/* Tasks are numbered through the chunks of key, then those of value. */
void attn_layer_run_append(const struct attn_layer_plan_full *plan, int64_t task, void *scratch)
{
    const struct attn_layer_cache *cache = plan->problem.cache;
    const struct attn_tensor *const sides[] = { &cache->key, &cache->value };
    const size_t offsets[] = { plan->k_offset, plan->v_offset };
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    attn_layer_operands(&plan->problem, operands);
    const int side = task < chunks_of(&operands[1]) ? 0 : 1;
    const struct attn_operand *operand = &operands[1 + side];
    const struct attn_operand *from = operand->is_of_key ? &operands[1] : operand;
    const struct attn_tensor rows =
        rows_of(operand, attn_scratch_at(scratch, offsets[side]), from->heads * from->head_dim);
    const int64_t chunk = side == 0 ? task : task - chunks_of(&operands[1]);
    const int64_t first = chunk * ATTN_LAYER_CHUNK_ROWS;
    const int64_t end = attn_min(first + ATTN_LAYER_CHUNK_ROWS, operand->input->shape[2]);

    for (int64_t head = 0; head < operand->heads; head++)
        for (int64_t row = first; row < end; row++)
            append_row(plan->attention.kernels, &rows, head, row, sides[side], cache->length + row);
}
