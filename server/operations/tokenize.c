/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize.c - two kinds of calls (call/call.h) of one task each.
 *
 * What they do is priced before that task runs, so that long texts wait like other long requests.
 */
#include "operations/operations.h"

#include "call/model_access.h"
#include "call/operation.h"
#include "operations/say.h"
#include "telemetry/metrics_inference.h"
#include "json/json_element.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

struct tokenize {
    struct call *call;
    struct model *model; /* retained */

    struct byte_slice body_text, pair;
    bool has_pair, special;
    struct token_list tokens;

    int32_t *ids;
    int64_t id_count;
    struct text decoded;
};

static struct tokenize *tokenize_of(const struct call *call)
{
    return call->work;
}

/* ---------------------------------------------------------------- fields -- */

/* Absent: the only model that is not built in. */
static bool read_model(struct field_reader *reader, const struct value *value, void *into)
{
    struct tokenize *job = into;
    struct fault *fault = reader->fault;
    if (value->kind != VALUE_NULL && value->kind != VALUE_STRING)
        return field_wrong_type(reader, value, "a string");
    if (!model_access_resolve(job->call->service->store, job->call->limits.key,
                              value->kind == VALUE_STRING ? value->string : NULL, "", &job->model,
                              fault)) {
        if (!fault->pointer[0])
            memcpy(fault->pointer, "/model", sizeof "/model");
        return false;
    }
    if (!job->model->tokenizer)
        return fault_set_at(
            fault, "/model", FAULT_OPTION, "model '%s' has no tokenizer: %s", job->model->name,
            job->model->tokenizer_reason ? job->model->tokenizer_reason
                                         : "its folder has none of the files that are read as one");
    return true;
}

static bool unknown_id(struct field_reader *reader, int64_t index, int64_t id, int64_t end)
{
    const struct json_place place = { reader->pointer, reader->name, reader->fault };
    const struct json_element element = { .depth = 1, .index = { index } };
    return json_element_fault(&place, &element, FAULT_OPTION,
                              "is %" PRId64 "; the vocabulary's ids end at %" PRId64, id, end - 1);
}

static bool read_ids(struct field_reader *reader, const struct value *value, void *into)
{
    struct tokenize *job = into;
    const int64_t end = tokenizer_id_end(job->model->tokenizer);
    const int64_t *ids = NULL;
    const struct json_numbers *numbers = field_read_numbers(reader, value, "an array of token ids");
    if (!numbers)
        return false;
    if (numbers->rank != 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "tokens has %d dimensions; expected an array of token ids",
                            numbers->rank);
    if (!field_copy_integers(reader, numbers, &ids, &job->id_count))
        return false;
    job->ids = arena_calloc(reader->arena, (size_t)job->id_count, sizeof *job->ids);
    if (!job->ids)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < job->id_count; i++) {
        if (ids[i] >= end)
            return unknown_id(reader, i, ids[i], end);
        job->ids[i] = (int32_t)ids[i];
    }
    return true;
}

#define AT(member)      offsetof(struct tokenize, member)
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

#define MODEL_ROW                                                                                  \
    {                                                                                              \
        .name = "model", .kind = FIELD_OWN, .own = read_model                                      \
    }
#define SPECIAL_ROW                                                                                \
    {                                                                                              \
        .name = "special", .kind = FIELD_BOOL, .offset = AT(special)                               \
    }

static const struct field TOKENIZE_ROWS[] = {
    MODEL_ROW,
    { .name = "text", .kind = FIELD_BYTES, .flags = FIELD_REQUIRED, .offset = AT(body_text) },
    { .name = "pair", .kind = FIELD_BYTES, .offset = AT(pair), .has = AT(has_pair) },
    SPECIAL_ROW,
};

static const struct field DETOKENIZE_ROWS[] = {
    MODEL_ROW,
    { .name = "tokens", .kind = FIELD_OWN, .flags = FIELD_REQUIRED, .own = read_ids },
    SPECIAL_ROW,
};

/* In order: ids are those of the model's vocabulary. */
static const struct field_table TOKENIZE = { .rows = TOKENIZE_ROWS,
                                             .count = COUNT_OF(TOKENIZE_ROWS),
                                             .policy = FIELDS_LISTED,
                                             .in_order = true,
                                             .bytes = sizeof(struct tokenize) };
static const struct field_table DETOKENIZE = { .rows = DETOKENIZE_ROWS,
                                               .count = COUNT_OF(DETOKENIZE_ROWS),
                                               .policy = FIELDS_LISTED,
                                               .in_order = true,
                                               .bytes = sizeof(struct tokenize) };

/* --------------------------------------------------------------- reading -- */

static void init(struct call *call)
{
    tokenize_of(call)->call = call;
    call->form.nul_is_kept = true;
}

/* bytes of text to be tokenized, or as many tokens as the answer has bytes of text. */
static void price(struct call *call, size_t bytes)
{
    infer_cost_plan_tokens(&call->cost, (int64_t)bytes, call->answer_coding);
    call->item_count = 1;
}

static bool read_tokenize(struct call *call, struct fault *fault)
{
    struct tokenize *job = tokenize_of(call);
    job->special = true;
    if (!operation_read_fields(call, &TOKENIZE, tokenize_of(call), fault))
        return false;
    price(call, job->body_text.size + job->pair.size);
    return true;
}

static bool read_detokenize(struct call *call, struct fault *fault)
{
    if (!operation_read_fields(call, &DETOKENIZE, tokenize_of(call), fault))
        return false;
    price(call, (size_t)tokenize_of(call)->id_count);
    return true;
}

/* ------------------------------------------------------------------- call -- */

static int64_t tasks(struct call *call, int stage)
{
    (void)call;
    return stage == 0 ? 1 : 0;
}

static bool is_stopped(void *call)
{
    return call_is_stopped(call);
}

static void run_tokenize(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct tokenize *job = tokenize_of(call);
    (void)stage;
    (void)task;
    (void)worker;
    const struct tokenizer_stop stop = { is_stopped, call };
    tokenizer_encode(job->model->tokenizer, &stop, job->body_text,
                     job->has_pair ? &job->pair : NULL, job->special, &call->arena, &job->tokens,
                     &call->fault);
}

static void run_detokenize(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct tokenize *job = tokenize_of(call);
    (void)stage;
    (void)task;
    (void)worker;
    text_init(&job->decoded, call->service->config->answer_bytes_max);
    job->decoded.memory = call->memory;
    const struct tokenizer_stop stop = { is_stopped, call };
    tokenizer_decode(job->model->tokenizer, &stop, job->ids, job->id_count, !job->special,
                     &job->decoded, &call->fault);
    if (call->fault.code == FAULT_NONE)
        text_finish(&job->decoded, &call->fault);
}

static void say_tokens(const struct call *call, struct writer *writer)
{
    const struct tokenize *job = tokenize_of(call);
    writer->kind->string(writer, "model", job->model->name);
    writer->kind->list(writer, "tokens");
    for (int64_t i = 0; i < job->tokens.count; i++)
        say_token(writer, job->model->tokenizer, &job->tokens.tokens[i], job->has_pair);
    writer->kind->end(writer);
}

/* The text may have U+0000, which no other answer has, so it is written here. */
static bool write_text(struct call *call, struct fault *fault)
{
    const struct tokenize *job = tokenize_of(call);
    (void)fault;
    text_raw(&call->text, "{\"model\":");
    text_string(&call->text, job->model->name);
    text_raw(&call->text, ",\"text\":");
    text_string_bytes(&call->text, job->decoded.data, job->decoded.used);
    text_raw(&call->text, "}\n");
    return true;
}

/* In the record, tokens count as query rows. */
static void record(struct call *call, struct request_record *record)
{
    const struct tokenize *job = tokenize_of(call);
    if (record->fault == FAULT_NONE) {
        record->item_count = 1;
        record->q_len = job->ids ? job->id_count : job->tokens.count;
        record->cost_ns = infer_cost_ns(&call->cost);
    }
    metrics_inference(0, record);
}

static void drop(struct call *call)
{
    struct tokenize *job = tokenize_of(call);
    if (!job)
        return;
    text_free(&job->decoded);
    model_release(job->model);
    job->model = NULL;
}

static const struct call_kind TOKENIZE_KIND = { .work_bytes = sizeof(struct tokenize),
                                                .init = init,
                                                .read = operation_read,
                                                .tasks = tasks,
                                                .run = run_tokenize,
                                                .write = operation_write,
                                                .record = record,
                                                .drop = operation_free };
const struct operation tokenize_call = { .kind = &TOKENIZE_KIND,
                                         .formats = operation_formats_json,
                                         .read = read_tokenize,
                                         .say = say_tokens,
                                         .drop = drop };

static const struct call_kind DETOKENIZE_KIND = { .work_bytes = sizeof(struct tokenize),
                                                  .init = init,
                                                  .read = operation_read,
                                                  .tasks = tasks,
                                                  .run = run_detokenize,
                                                  .write = operation_write,
                                                  .record = record,
                                                  .drop = operation_free };
const struct operation detokenize_call = { .kind = &DETOKENIZE_KIND,
                                           .formats = operation_formats_json,
                                           .read = read_detokenize,
                                           .finish = write_text,
                                           .drop = drop };
