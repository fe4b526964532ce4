/* SPDX-License-Identifier: Apache-2.0 */
/* call_answer.c - see call_answer.h. */
#include "call/call_answer.h"

#include <stdlib.h>

enum { LONG_BYTES = 1 << 20 }; /* an answer that may have as many is long */

enum { STAGE_NONE, STAGE_WRITE, STAGE_PIECES, STAGE_PACK };

/* Puts the pieces, where there are any, in place of the text that was written with gaps. */
static bool join(struct call *call)
{
    struct answer_pieces *pieces = &call->pieces;
    int64_t count = pieces->count;
    call->text_bytes = count > 0 ? answer_pieces_bytes(pieces) : call->text.used;
    if (call->text_bytes > call->text.bytes_max)
        call->text.failed = FAULT_ANSWER_TOO_LARGE;
    if (count > 0) {
        for (int i = 1; i < call->part_count; i++)
            pieces->parts[count++] = call->parts[i];
        call->parts = pieces->parts;
        call->part_count = (int)count;
    }
    return text_finish(&call->text, &call->fault);
}

/* The number of blocks to pack, of an answer that is complete. */
static int64_t begin_packing(struct call *call)
{
    size_t bytes = call->text_bytes;
    bool is_required;
    call->whole = (struct byte_slice){ call->text.data, call->text.used };
    const struct byte_slice *parts = call->part_count > 0 ? call->parts : &call->whole;
    const int part_count = call->part_count > 0 ? call->part_count : 1;
    for (int i = 0; i < call->part_count; i++)
        bytes += i < call->pieces.count ? 0 : parts[i].size;
    if (!exchange_packs(call->exchange, bytes, &is_required))
        return 0;
    if (!coding_blocks_begin(&call->packed, call->answer_coding, is_required, parts, part_count,
                             call->memory))
        exchange_set_packed(call->exchange, false);
    return call->packed.count;
}

int64_t call_answer_tasks(struct call *call)
{
    const bool is_long = call->answer_bytes >= LONG_BYTES;
    if ((call->answer_stages == STAGE_NONE && !is_long) || call->fault.code != FAULT_NONE)
        return 0;
    call->answer_stages++;
    if (call->answer_stages == STAGE_WRITE)
        return 1;
    if (call->answer_stages == STAGE_PIECES && call->pieces.count > 0)
        return call->pieces.count;
    if (call->answer_stages > STAGE_PACK)
        return 0;
    call->answer_stages = STAGE_PACK;
    return join(call) ? begin_packing(call) : 0;
}

static bool write_whole(struct call *call)
{
    return (!call->order || call->order->check(call, &call->fault))
           && call->kind->write(call, &call->fault);
}

static void write(struct call *call, int64_t task)
{
    if (call->answer_stages == STAGE_PIECES) {
        answer_pieces_write(&call->pieces, &call->text, task);
        return;
    }
    call->text.deferred = &call->pieces.deferred;
    if (write_whole(call))
        answer_pieces_cut(&call->pieces, &call->text, call->part_count, &call->fault);
}

void call_answer_run(struct call *call, int64_t task)
{
    const bool is_packing = call->answer_stages == STAGE_PACK;
    const enum infer_phase phase = is_packing ? INFER_PACK : INFER_WRITE;
    struct infer_stopwatch watch;
    infer_cost_start(&call->cost, phase, &watch);
    if (is_packing)
        coding_blocks_pack(&call->packed, task);
    else
        write(call, task);
    infer_cost_stop(&call->cost, phase, &watch);
}

void call_answer_finish(struct call *call)
{
    if (call->answer_stages == STAGE_NONE) {
        if (write_whole(call))
            join(call);
        return;
    }
    if (call->packed.count == 0)
        return;
    const bool is_packed = coding_blocks_finish(&call->packed);
    exchange_set_packed(call->exchange, is_packed);
    infer_cost_was_packed(&call->cost, is_packed ? call->packed.source_bytes : 0);
    if (is_packed) {
        call->parts = call->packed.parts;
        call->part_count = call->packed.part_count;
    }
}

void call_drop_body(struct call *call)
{
    memory_return(call->memory, call->body.size);
    free(call->body_memory);
    call->body_memory = NULL;
    call->body = (struct byte_slice){ NULL, 0 };
}

void call_answer_drop_rest(struct call *call)
{
    const bool is_packed = call->packed.count > 0 && call->parts == call->packed.parts;
    if (is_packed)
        answer_pieces_free(&call->pieces);
    else
        coding_blocks_free(&call->packed);
    if (!is_packed && call->part_count != call->pieces.count)
        return;
    text_free(&call->text);
    call->kind->drop(call);
    call_drop_body(call);
    memory_hold(call->memory,
                is_packed ? coding_blocks_trim(&call->packed) : answer_pieces_trim(&call->pieces));
}
