/* operation.c - the headers, the message and the answer of a call, by the formats of its
 * operation. */
#include "infer/operation.h"

#include "infer/call_formats.h"

const struct format *const operation_formats_json[] = { &format_json, NULL };
const struct format *const operation_formats_tensors[] = { &format_json, &format_safetensors,
                                                           NULL };
const struct format *const operation_formats_npy[] = { &format_json, &format_safetensors,
                                                       &format_npy, NULL };

bool operation_begin(struct call *call, struct arena *arena, const struct exchange *exchange,
                     struct fault *fault)
{
    const struct operation *operation = call->operation;
    if (!exchange)
        return true;
    if (operation->formats
        && !call_formats_choose(exchange, operation->formats, operation->address, arena,
                                &call->form, &call->answer, fault))
        return false;
    return !operation->begin || operation->begin(call, exchange, fault);
}

bool operation_read(struct call *call, struct fault *fault)
{
    const struct operation *operation = NULL;
    while (call->operation != operation) {
        operation = call->operation;
        if (!operation->read(call, fault))
            return false;
    }
    return true;
}

bool operation_read_items(struct call *call, struct arena *arena, bool nonfinite_allowed,
                          struct field_items *items, struct fault *fault)
{
    const struct field_reader reader = { .arena = arena,
                                         .nonfinite_allowed = nonfinite_allowed,
                                         .fault = fault };
    struct message message;
    call->form.arena = arena;
    call->form.nonfinite_allowed = nonfinite_allowed;
    return call_formats_read(call, &call->form, items->target.table, &message, fault)
           && fields_read_items(&reader, &message, items);
}

const struct format *operation_answer(const struct call *call)
{
    return call->answer ? call->answer : &format_json;
}

bool operation_write(struct call *call, struct fault *fault)
{
    const struct operation *operation = call->operation;
    const struct writer_kind *kind = operation_answer(call)->writer;
    if (operation->finish && !operation->finish(call, fault))
        return false;
    if (!operation->say)
        return true;
    struct writer *writer = kind->begin(&call->form, &call->text, fault);
    if (!writer)
        return false;
    kind->object(writer, NULL);
    operation->say(call, writer);
    kind->end(writer);
    if (!kind->finish(writer))
        return false;
    call->parts = writer->parts;
    call->part_count = writer->part_count;
    call->content_type = writer->content_type ? writer->content_type : kind->content_type;
    call->has_header_length = writer->is_header;
    return true;
}

void operation_drop(struct call *call)
{
    if (call->operation->drop)
        call->operation->drop(call);
    format_body_free(&call->form);
}
