/* tokenize_handler.c - see tokenize_handler.h.
 *
 * Two kinds of calls (infer/call.h) of one task each. What they do is priced before that task runs,
 * so that long texts wait like other long requests. */
#include "api/tokenize_handler.h"

#include "infer/call.h"
#include "service/model_access.h"
#include "watch/metrics_inference.h"
#include "wire/v1_reader.h"
#include "wire/v1_token.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct tokenize {
    struct call call; /* first: a call of these kinds is its tokenize */
    struct arena arena;
    const struct access_key *key;
    struct model *model; /* retained */

    struct byte_slice body_text, pair;
    bool has_pair, special;
    struct token_list tokens;

    int32_t *ids;
    int64_t id_count;
    struct text decoded;
};

static struct tokenize *tokenize_of(struct call *call)
{
    return (struct tokenize *)call;
}

/* --------------------------------------------------------------- reading -- */

static bool begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    struct tokenize *job = tokenize_of(call);
    arena_init(&job->arena, service_request_bytes_max(call->service->config));
    job->arena.memory = call->memory;
    job->key = exchange ? exchange_key(exchange) : NULL;
    call->nul_is_kept = true;
    return !exchange || service_takes_json(exchange, "application/json", fault);
}

struct member {
    const char *name;
    bool (*read)(struct tokenize *job, struct v1_reader *reader, const cJSON *node);
    enum {
        OPTIONAL,
        NEEDED,
        DEFAULTED /* read() is called with NULL where the body has no such member */
    } presence;
};

/* Reads the members of the body in the order of the table. null counts as absent. */
static bool read_members(struct tokenize *job, struct v1_reader *reader,
                         const struct member *members, int member_count)
{
    const cJSON *root = reader->document->root, *node;
    const char *known[4];
    if (!cJSON_IsObject(root))
        return fault_set(reader->fault, FAULT_TYPE, "the body is %s; expected an object",
                         json_kind(reader->document, root));
    for (int i = 0; i < member_count; i++)
        known[i] = members[i].name;
    cJSON_ArrayForEach(node, root)
    {
        int i = 0;
        while (i < member_count && strcmp(known[i], node->string) != 0)
            i++;
        v1_point_to(reader, node->string);
        if (i == member_count)
            return v1_unknown_field_of(reader, node->string, known, member_count);
    }
    for (int i = 0; i < member_count; i++) {
        node = cJSON_GetObjectItemCaseSensitive(root, known[i]);
        v1_point_to(reader, known[i]);
        if (cJSON_IsNull(node))
            node = NULL;
        if (node || members[i].presence == DEFAULTED) {
            if (!members[i].read(job, reader, node))
                return false;
        } else if (members[i].presence == NEEDED) {
            return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "%s is missing",
                                known[i]);
        }
    }
    return true;
}

static bool read_model(struct tokenize *job, struct v1_reader *reader, const cJSON *node)
{
    struct fault *fault = reader->fault;
    if (node && !cJSON_IsString(node))
        return v1_wrong_type(reader, node, "a string");
    if (!model_access_resolve(job->call.service->store, job->key, node ? node->valuestring : NULL,
                              "", &job->model, fault)) {
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

static bool read_text(struct tokenize *job, struct v1_reader *reader, const cJSON *node)
{
    return v1_read_string(reader, node, &job->body_text);
}

static bool read_pair(struct tokenize *job, struct v1_reader *reader, const cJSON *node)
{
    job->has_pair = true;
    return v1_read_string(reader, node, &job->pair);
}

static bool read_special(struct tokenize *job, struct v1_reader *reader, const cJSON *node)
{
    return v1_read_bool(reader, node, &job->special);
}

static bool read_ids(struct tokenize *job, struct v1_reader *reader, const cJSON *node)
{
    int64_t *ids = NULL;
    const int64_t end = tokenizer_id_end(job->model->tokenizer);
    const struct json_numbers *numbers = v1_read_numbers(reader, node, "an array of token ids");
    if (!numbers || !v1_expect_numbers(reader, numbers, false))
        return false;
    if (numbers->rank != 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "tokens has %d dimensions; expected an array of token ids",
                            numbers->rank);
    if (!v1_integers_of(reader, numbers, FAULT_OPTION, &ids))
        return false;
    job->ids = arena_calloc(&job->arena, (size_t)numbers->count, sizeof *job->ids);
    if (!job->ids)
        return fault_no_memory(reader->fault);
    job->id_count = numbers->count;
    for (int64_t i = 0; i < numbers->count; i++) {
        if (ids[i] >= end) {
            const struct json_place place = v1_place(reader);
            const struct json_element element = json_element_at(numbers, i);
            return json_element_fault(&place, &element, FAULT_OPTION,
                                      "is %" PRId64 "; the vocabulary's ids end at %" PRId64,
                                      ids[i], end - 1);
        }
        job->ids[i] = (int32_t)ids[i];
    }
    return true;
}

/* bytes of text to be tokenized, or as many tokens as the answer has bytes of text. */
static void price(struct call *call, size_t bytes)
{
    infer_cost_plan_tokens(&call->cost, (int64_t)bytes, call->answer_coding);
    call->item_count = 1;
}

static bool read_body(struct call *call, const struct member *members, int member_count,
                      struct fault *fault)
{
    struct tokenize *job = tokenize_of(call);
    const bool nonfinite_allowed = call->service->config->json_nonfinite_allowed;
    struct v1_reader reader = { .document = &call->document,
                                .arena = &job->arena,
                                .nonfinite_allowed = nonfinite_allowed,
                                .fault = fault };
    return call_read_json(call, call->body.data, call->body.size, nonfinite_allowed, fault)
           && read_members(job, &reader, members, member_count);
}

static bool read_tokenize(struct call *call, struct fault *fault)
{
    static const struct member MEMBERS[] = { { "model", read_model, DEFAULTED },
                                             { "text", read_text, NEEDED },
                                             { "pair", read_pair, OPTIONAL },
                                             { "special", read_special, OPTIONAL } };
    struct tokenize *job = tokenize_of(call);
    job->special = true;
    if (!read_body(call, MEMBERS, 4, fault))
        return false;
    price(call, job->body_text.size + job->pair.size);
    return true;
}

static bool read_detokenize(struct call *call, struct fault *fault)
{
    static const struct member MEMBERS[] = { { "model", read_model, DEFAULTED },
                                             { "tokens", read_ids, NEEDED },
                                             { "special", read_special, OPTIONAL } };
    struct tokenize *job = tokenize_of(call);
    if (!read_body(call, MEMBERS, 3, fault))
        return false;
    price(call, (size_t)job->id_count);
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
                     job->has_pair ? &job->pair : NULL, job->special, &job->arena, &job->tokens,
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

static void write_model(struct text *text, const struct model *model)
{
    text_raw(text, "{\"model\":");
    text_string(text, model->name);
}

static bool write_tokenize(struct call *call, struct fault *fault)
{
    const struct tokenize *job = tokenize_of(call);
    (void)fault;
    write_model(&call->text, job->model);
    text_raw(&call->text, ",\"tokens\":[");
    for (int64_t i = 0; i < job->tokens.count; i++) {
        text_raw(&call->text, i > 0 ? "," : "");
        v1_token_write(job->model->tokenizer, &job->tokens.tokens[i], job->has_pair, &call->text);
    }
    text_raw(&call->text, "]}\n");
    return true;
}

static bool write_detokenize(struct call *call, struct fault *fault)
{
    const struct tokenize *job = tokenize_of(call);
    (void)fault;
    write_model(&call->text, job->model);
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
    text_free(&job->decoded);
    model_release(job->model);
    job->model = NULL;
    arena_free(&job->arena);
}

static void handle(struct exchange *exchange, const struct call_kind *kind)
{
    struct tokenize *job = calloc(1, sizeof *job);
    if (job)
        job->call.kind = kind;
    call_handle(exchange, job ? &job->call : NULL);
}

void tokenize_handle(struct exchange *exchange)
{
    static const struct call_kind KIND = { .begin = begin,
                                           .read = read_tokenize,
                                           .tasks = tasks,
                                           .run = run_tokenize,
                                           .write = write_tokenize,
                                           .record = record,
                                           .drop = drop };
    handle(exchange, &KIND);
}

void detokenize_handle(struct exchange *exchange)
{
    static const struct call_kind KIND = { .begin = begin,
                                           .read = read_detokenize,
                                           .tasks = tasks,
                                           .run = run_detokenize,
                                           .write = write_detokenize,
                                           .record = record,
                                           .drop = drop };
    handle(exchange, &KIND);
}
