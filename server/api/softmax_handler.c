/* softmax_handler.c - see softmax_handler.h.
 *
 * The kind of call (infer/call.h) that computes a softmax in blocks of rows. The answer is computed
 * where the numbers of the request lie, so it takes no memory of its own. */
#include "api/softmax_handler.h"

#include "base/dtype.h"
#include "infer/call.h"
#include "infer/infer_results.h"
#include "softmax.h"
#include "watch/metrics_inference.h"
#include "wire/npy_body.h"
#include "wire/v1_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TASK_NUMBERS = 16384 };

struct softmax {
    struct call call; /* first: a call of this kind is its softmax */
    struct arena arena;
    struct npy_forms forms;
    const struct json_numbers *input;
    int64_t axis;
    struct attn_softmax softmax;
    int64_t row_count, rows_per_task;
};

static struct softmax *softmax_of(struct call *call)
{
    return (struct softmax *)call;
}

/* --------------------------------------------------------------- reading -- */

static bool read_input(struct softmax *job, struct v1_reader *reader, const cJSON *node)
{
    v1_point_to(reader, "input");
    if (!node || cJSON_IsNull(node))
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "input is missing");
    job->input = v1_read_numbers(reader, node, "an array of numbers");
    return job->input && v1_expect_numbers(reader, job->input, true);
}

/* An array of an .npy file takes the place of the field: its numbers as floats. */
static bool read_input_array(struct softmax *job, struct v1_reader *reader)
{
    struct array array;
    struct json_numbers *input = arena_calloc(&job->arena, 1, sizeof *input);
    if (!input)
        return fault_no_memory(reader->fault);
    if (!npy_body_numbers(reader, job->call.body, &array))
        return false;
    if (array.rank == 0)
        return fault_set(reader->fault, FAULT_SHAPE,
                         "the .npy file is a single number; expected an array of 1 to %d axes",
                         NPY_RANK_MAX);
    uint64_t count = 1; /* of no numbers it may overflow on its way to 0 */
    *input = (struct json_numbers){ .rank = array.rank, .nonfinite_index = -1 };
    for (int i = 0; i < array.rank; i++) {
        input->shape[i] = array.shape[i];
        count *= (uint64_t)array.shape[i];
    }
    input->count = (int64_t)count;
    input->values = arena_alloc(&job->arena, (size_t)input->count * sizeof *input->values);
    if (!input->values)
        return fault_no_memory(reader->fault);
    dtype_read(input->values, array.data, array.dtype, (size_t)input->count);
    job->input = input;
    return true;
}

static bool read_axis(struct softmax *job, struct v1_reader *reader, const cJSON *node)
{
    const int rank = job->input->rank;
    job->axis = -1;
    v1_point_to(reader, "axis");
    if (node && !cJSON_IsNull(node)
        && !v1_read_integer(reader, node, -JSON_RANK_MAX, FAULT_OPTION, &job->axis))
        return false;
    if (job->axis < -rank || job->axis >= rank)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "axis is %" PRId64 "; input has %d dimensions, so expected %d to %d",
                            job->axis, rank, -rank, rank - 1);
    if (job->axis < 0)
        job->axis += rank;
    return true;
}

static void settle_shape(struct softmax *job)
{
    const struct json_numbers *input = job->input;
    struct attn_softmax *softmax = &job->softmax;
    *softmax = (struct attn_softmax){ .input = input->values,
                                      .output = input->values,
                                      .outer = 1,
                                      .length = input->shape[job->axis],
                                      .inner = 1,
                                      .rows_per_visible = 1 };
    /* No overflow: the product of the shape is the count of numbers, or 0. */
    for (int i = 0; i < input->rank && input->count > 0; i++) {
        if (i < job->axis)
            softmax->outer *= input->shape[i];
        if (i > job->axis)
            softmax->inner *= input->shape[i];
    }
    job->row_count = input->count > 0 ? softmax->outer * softmax->inner : 0;
    job->rows_per_task =
        softmax->length < TASK_NUMBERS && softmax->length > 0 ? TASK_NUMBERS / softmax->length : 1;
}

/* Lengths have the shape of one or more of the first dimensions of input, without the last: one
 * length for each row, or one for all rows below. */
static bool check_lengths_shape(const struct softmax *job, struct v1_reader *reader,
                                const struct json_numbers *lengths)
{
    const struct json_numbers *input = job->input;
    const int rank_max = input->rank > 1 ? input->rank - 1 : 1;
    bool fits = lengths->rank <= rank_max;
    for (int i = 0; fits && i < lengths->rank; i++)
        fits = lengths->shape[i] == (input->rank > 1 ? input->shape[i] : 1);
    if (!fits)
        return fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                            "kv_len does not have the shape of the first dimensions of input, "
                            "without its last");
    return v1_expect_numbers(reader, lengths, false);
}

static bool read_kv_len(struct softmax *job, struct v1_reader *reader, const cJSON *node)
{
    struct attn_softmax *softmax = &job->softmax;
    int64_t *visible = NULL;
    int64_t count = 1;
    if (!node || cJSON_IsNull(node))
        return true;
    v1_point_to(reader, "kv_len");
    if (cJSON_IsArray(node)) {
        const struct json_numbers *lengths =
            v1_read_numbers(reader, node, "a number, or an array of them");
        if (!lengths || !check_lengths_shape(job, reader, lengths)
            || !v1_integers_of(reader, lengths, FAULT_LENGTH, &visible))
            return false;
        count = lengths->count;
    } else {
        visible = arena_calloc(&job->arena, 1, sizeof *visible);
        if (!visible)
            return fault_no_memory(reader->fault);
        if (!v1_read_integer(reader, node, 0, FAULT_LENGTH, visible))
            return false;
    }
    if (job->axis != job->input->rank - 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "kv_len counts along the last axis; axis is %" PRId64, job->axis);
    for (int64_t i = 0; i < count; i++)
        if (visible[i] > job->input->shape[job->axis])
            return fault_set_at(reader->fault, reader->pointer, FAULT_LENGTH,
                                "kv_len is %" PRId64 "; a row has %" PRId64 " numbers", visible[i],
                                job->input->shape[job->axis]);
    softmax->visible = visible;
    softmax->rows_per_visible = count > 0 && job->row_count > count ? job->row_count / count : 1;
    return true;
}

static bool check_members(struct v1_reader *reader, const cJSON *root)
{
    static const char *const known[] = { "input", "axis", "kv_len" };
    const cJSON *node;
    cJSON_ArrayForEach(node, root)
    {
        int i = 0;
        while (i < 3 && strcmp(known[i], node->string) != 0)
            i++;
        v1_point_to(reader, node->string);
        if (i == 3)
            return v1_unknown_field(reader, node->string, known, 3);
    }
    return true;
}

static bool read_request(struct softmax *job, struct fault *fault)
{
    const struct config *config = job->call.service->config;
    const cJSON *root = job->call.document.root;
    struct v1_reader reader = { .document = &job->call.document,
                                .arena = &job->arena,
                                .nonfinite_allowed = config->json_nonfinite_allowed,
                                .fault = fault };
    if (!cJSON_IsObject(root))
        return fault_set(fault, FAULT_TYPE, "the body is %s; expected an object",
                         json_kind(reader.document, root));
    if (!check_members(&reader, root)
        || !(job->forms.is_body
                 ? read_input_array(job, &reader)
                 : read_input(job, &reader, cJSON_GetObjectItemCaseSensitive(root, "input")))
        || !read_axis(job, &reader, cJSON_GetObjectItemCaseSensitive(root, "axis")))
        return false;
    settle_shape(job);
    if (!read_kv_len(job, &reader, cJSON_GetObjectItemCaseSensitive(root, "kv_len")))
        return false;
    if ((size_t)job->input->count > config->answer_bytes_max / INFER_ANSWER_BYTES_PER_NUMBER)
        return fault_set(fault, FAULT_ANSWER_TOO_LARGE,
                         "the answer may take more than the %zu bytes that are given "
                         "(%d for each number)",
                         config->answer_bytes_max, INFER_ANSWER_BYTES_PER_NUMBER);
    return true;
}

/* ------------------------------------------------------------------- call -- */

static bool begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    static const char *const NAMES[] = { "axis", "kv_len" };
    struct softmax *job = softmax_of(call);
    arena_init(&job->arena, service_request_bytes_max(call->service->config));
    job->arena.memory = call->memory;
    return npy_forms_read(&job->forms, exchange, NAMES, 2, &job->arena, fault)
           && (job->forms.is_body
               || service_takes_json(exchange, "application/json or application/x-npy", fault));
}

/* Reads the fields, which of an .npy body are those of the address, as the document. */
static bool read_document(struct softmax *job, struct fault *fault)
{
    struct call *call = &job->call;
    const bool nonfinite_allowed = call->service->config->json_nonfinite_allowed;
    struct v1_reader reader = { .arena = &job->arena, .fault = fault };
    struct text text;
    if (!job->forms.is_body)
        return call_read_json(call, call->body.data, call->body.size, nonfinite_allowed, fault);
    text_init(&text, SIZE_MAX);
    const bool good = npy_body_fields(&reader, &job->forms, &text)
                      && call_read_json(call, text.data, text.used, nonfinite_allowed, fault);
    text_free(&text);
    return good;
}

/* The body is not needed once it is read. */
static bool read(struct call *call, struct fault *fault)
{
    struct softmax *job = softmax_of(call);
    const bool good = read_document(job, fault) && read_request(job, fault);
    call_drop_body(call);
    if (!good)
        return false;
    infer_cost_plan_softmax(&call->cost, job->input->count, call->answer_coding);
    call->item_count = 1;
    call->answer_bytes = (size_t)job->input->count * INFER_ANSWER_BYTES_PER_NUMBER;
    return true;
}

static int64_t tasks(struct call *call, int stage)
{
    const struct softmax *job = softmax_of(call);
    if (stage > 0)
        return 0;
    return job->row_count / job->rows_per_task + (job->row_count % job->rows_per_task != 0);
}

static void run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    const struct softmax *job = softmax_of(call);
    const int64_t first = task * job->rows_per_task, left = job->row_count - first;
    (void)stage;
    (void)worker;
    attn_softmax_run(&job->softmax, first, left < job->rows_per_task ? left : job->rows_per_task);
}

static bool write(struct call *call, struct fault *fault)
{
    struct softmax *job = softmax_of(call);
    if (job->forms.is_answer) {
        struct array array = { .data = job->softmax.output,
                               .dtype = ATTN_F32,
                               .rank = job->input->rank };
        memcpy(array.shape, job->input->shape, sizeof array.shape);
        return npy_answer_make(call, &job->arena, &array, fault);
    }
    text_raw(&call->text, "{\"output\":");
    text_tensor(&call->text, job->softmax.output, job->input->rank, job->input->shape);
    text_raw(&call->text, "}\n");
    return true;
}

/* In the record, rows count as query rows and the numbers of a row as keys. */
static void record(struct call *call, struct request_record *record)
{
    const struct softmax *job = softmax_of(call);
    if (record->fault == FAULT_NONE) {
        record->item_count = 1;
        record->q_len = job->row_count;
        record->kv_len = job->softmax.length;
        record->cost_ns = infer_cost_ns(&call->cost);
    }
    metrics_inference(0, record);
}

static void drop(struct call *call)
{
    arena_free(&softmax_of(call)->arena);
}

static const struct call_kind softmax_kind = {
    .begin = begin,
    .read = read,
    .tasks = tasks,
    .run = run,
    .write = write,
    .record = record,
    .drop = drop,
};

void softmax_handle(struct exchange *exchange)
{
    struct softmax *job = calloc(1, sizeof *job);
    if (job)
        job->call.kind = &softmax_kind;
    call_handle(exchange, job ? &job->call : NULL);
}
