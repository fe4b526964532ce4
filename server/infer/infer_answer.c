/* infer_answer.c - see infer_answer.h. */
#include "infer/infer_answer.h"

enum { LONG_BYTES = 1 << 20 }; /* that may come to as much is a long one */

enum { STAGE_NONE, STAGE_WRITE, STAGE_PIECES, STAGE_PACK };

static bool is_long(const struct infer_request *request)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < request->item_count && bytes < LONG_BYTES; i++)
        if (request->items[i].fault.code == FAULT_NONE)
            bytes += request->items[i].answer_bytes;
    return bytes >= LONG_BYTES;
}

/* The text that the wire wrote gives way to the pieces, of which it is the first part. */
static bool join(struct infer_call *call, struct fault *fault)
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
    return text_finish(&call->text, fault);
}

/* How many blocks there are to pack, of an answer that is whole. */
static int64_t begin_packing(struct infer_answer *answer, struct infer_call *call,
                             struct exchange *exchange)
{
    size_t bytes = call->text_bytes;
    bool is_required;
    answer->whole = (struct byte_slice){ call->text.data, call->text.used };
    const struct byte_slice *parts = call->part_count > 0 ? call->parts : &answer->whole;
    const int part_count = call->part_count > 0 ? call->part_count : 1;
    for (int i = 0; i < call->part_count; i++)
        bytes += i < call->pieces.count ? 0 : parts[i].size;
    if (!exchange_packs(exchange, bytes, &is_required))
        return 0;
    if (!coding_blocks_begin(&call->packed, exchange_answer_coding(exchange), is_required, parts,
                             part_count, call->memory))
        exchange_set_packed(exchange, false);
    return call->packed.count;
}

int64_t infer_answer_tasks(struct infer_answer *answer, struct infer_call *call,
                           struct exchange *exchange, struct fault *fault)
{
    if ((answer->stages == STAGE_NONE && !is_long(&call->request)) || fault->code != FAULT_NONE)
        return 0;
    answer->stages++;
    if (answer->stages == STAGE_WRITE)
        return 1;
    if (answer->stages == STAGE_PIECES && call->pieces.count > 0)
        return call->pieces.count;
    if (answer->stages > STAGE_PACK)
        return 0;
    answer->stages = STAGE_PACK;
    return join(call, fault) ? begin_packing(answer, call, exchange) : 0;
}

static void write(const struct infer_answer *answer, struct infer_call *call, int64_t task,
                  struct fault *fault)
{
    if (answer->stages == STAGE_PIECES) {
        answer_pieces_write(&call->pieces, &call->text, task);
        return;
    }
    call->text.deferred = &call->pieces.deferred;
    if (call->wire->write(call, fault))
        answer_pieces_cut(&call->pieces, &call->text, fault);
}

void infer_answer_run(const struct infer_answer *answer, struct infer_call *call,
                      struct infer_cost *cost, int64_t task, struct fault *fault)
{
    const bool is_packing = answer->stages == STAGE_PACK;
    const enum infer_phase phase = is_packing ? INFER_PACK : INFER_WRITE;
    struct infer_stopwatch watch;
    infer_cost_start(cost, phase, &watch);
    if (is_packing)
        coding_blocks_pack(&call->packed, task);
    else
        write(answer, call, task, fault);
    infer_cost_stop(cost, phase, &watch);
}

bool infer_answer_finish(const struct infer_answer *answer, struct infer_call *call,
                         struct exchange *exchange, struct infer_cost *cost, struct fault *fault)
{
    if (answer->stages == STAGE_NONE)
        return call->wire->write(call, fault) && join(call, fault);
    if (call->packed.count == 0)
        return true;
    const bool is_packed = coding_blocks_finish(&call->packed);
    exchange_set_packed(exchange, is_packed);
    infer_cost_was_packed(cost, is_packed ? call->packed.source_bytes : 0);
    if (is_packed) {
        call->parts = call->packed.parts;
        call->part_count = call->packed.part_count;
    }
    return true;
}

void infer_answer_drop_rest(struct infer_call *call)
{
    const bool is_packed = call->packed.count > 0 && call->parts == call->packed.parts;
    if (is_packed) {
        answer_pieces_free(&call->pieces);
        text_free(&call->text);
    }
    if (is_packed || call->part_count == call->pieces.count)
        infer_request_free(&call->request);
}
