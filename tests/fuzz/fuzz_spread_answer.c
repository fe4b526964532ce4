/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_spread_answer.c - any bytes as what a peer answers to a call over a session that is spread.
 * What is taken has parts of the shapes that were asked. */
#include "operations/spread/spread_message.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADS = 2, ROWS = 1, ITEMS = 3 };

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check(const struct infer_part *part)
{
    const float *context = part->context.data, *lse = part->lse.data;
    volatile float sum = 0;
    require(part->context.rank == 3 && part->lse.rank == 2);
    require(part->context.shape[0] == HEADS && part->context.shape[1] == ROWS);
    require(part->lse.shape[0] == HEADS && part->lse.shape[1] == ROWS);
    for (int64_t i = 0; i < HEADS * ROWS * part->context.shape[2]; i++)
        sum += context[i];
    for (int64_t i = 0; i < HEADS * ROWS; i++)
        sum += lse[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spread_item items[ITEMS] = { { .peer = 0, .is_asked = true },
                                        { .peer = 1, .is_asked = true },
                                        { .peer = 0, .rows = 1 } };
    const float query[HEADS] = { 1, 2 };
    const struct infer_item asked = {
        .query = { .data = query, .rank = 2, .shape = { ROWS, HEADS } }, .q_heads = HEADS
    };
    struct arena arena;
    struct fault fault = { .code = FAULT_NONE };
    struct spread_refusal refusal;
    arena_init(&arena, 1 << 24);
    const struct spread_batch batch = {
        .asked = &asked, .items = items, .count = ITEMS, .arena = &arena
    };
    struct spread_request request = { .peer = 0, .status = 200, .answer_size = size };
    request.answer = malloc(size + 1);
    require(request.answer != NULL);
    if (size > 0)
        memcpy(request.answer, data, size);
    request.answer[size] = '\0';
    if (spread_message_read(&batch, &request, &refusal, &fault))
        check(&items[0].part);
    else
        require(fault.code != FAULT_NONE || refusal.item >= 0);
    spread_message_read_refusal(&request, &refusal);
    require(spread_message_number(&request, "bytes_free") >= -1);
    free(request.answer);
    arena_free(&arena);
    return 0;
}
