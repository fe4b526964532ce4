/* infer_answer.c - see infer_answer.h. */
#include "infer_answer.h"

enum { LONG_BYTES = 1 << 20 }; /* that may come to as much is a long one */

enum { STAGE_NONE, STAGE_WRITE, STAGE_PIECES };

static bool is_long(const struct infer_request *request)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < request->item_count && bytes < LONG_BYTES; i++)
        if (request->items[i].fault.code == FAULT_NONE)
            bytes += request->items[i].answer_bytes;
    return bytes >= LONG_BYTES;
}

int64_t infer_answer_tasks(struct infer_answer *answer, const struct infer_call *call)
{
    if (answer->stages == STAGE_NONE && !is_long(&call->request))
        return 0;
    answer->stages++;
    return answer->stages == STAGE_WRITE    ? 1
           : answer->stages == STAGE_PIECES ? call->pieces.count
                                            : 0;
}

void infer_answer_run(const struct infer_answer *answer, struct infer_call *call, int64_t task,
                      struct fault *fault)
{
    if (answer->stages == STAGE_PIECES) {
        answer_pieces_write(&call->pieces, &call->text, task);
        return;
    }
    call->text.later = &call->pieces.later;
    if (call->wire->write(call, fault))
        answer_pieces_cut(&call->pieces, &call->text, fault);
}

/* The text that the wire wrote gives way to the pieces, of which it is the first part. */
static bool join(struct infer_call *call, struct fault *fault)
{
    struct answer_pieces *pieces = &call->pieces;
    int64_t count = pieces->count;
    call->text_bytes = answer_pieces_bytes(pieces);
    if (call->text_bytes > call->text.bytes_max)
        call->text.failed = FAULT_ANSWER_TOO_LARGE;
    for (int i = 1; i < call->part_count; i++)
        pieces->parts[count++] = call->parts[i];
    call->parts = pieces->parts;
    call->part_count = (int)count;
    return text_finish(&call->text, fault);
}

bool infer_answer_finish(const struct infer_answer *answer, struct infer_call *call,
                         struct fault *fault)
{
    if (answer->stages == STAGE_NONE && !call->wire->write(call, fault))
        return false;
    if (call->pieces.count > 0)
        return join(call, fault);
    call->text_bytes = call->text.used;
    return text_finish(&call->text, fault);
}
