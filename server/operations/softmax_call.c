/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_call.c - the kind of call (call/call.h) that computes a softmax in blocks of rows.
 *
 * The answer is computed where the numbers of the request lie, so it takes no memory. */
#include "operations/operations.h"

#include "base/dtype.h"
#include "call/infer_results.h"
#include "call/operation.h"
#include "formats/accept.h"
#include "operations/say.h"
#include "softmax.h"
#include "telemetry/metrics_inference.h"
#include "json/json_element.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

enum { TASK_NUMBERS = 16384 };

/* What a body asks for. */
struct softmax_asked {
    struct array input;
    int64_t axis;           /* from 0 */
    const int64_t *visible; /* [visible_count], as attn_softmax takes them; NULL: all */
    int64_t visible_count;
};

struct softmax {
    struct call *call;
    struct softmax_asked asked;
    struct attn_softmax softmax;
    int64_t number_count, row_count, rows_per_task;
};

static struct softmax *softmax_of(const struct call *call)
{
    return call->work;
}

/* ---------------------------------------------------------------- fields -- */

/* Only files have arrays without axes. */
static bool check_input(struct field_reader *reader, const void *value)
{
    return ((const struct array *)value)->rank > 0
           || fault_set(reader->fault, FAULT_SHAPE,
                        "the .npy file is a single number; expected an array of 1 to %d axes",
                        ARRAY_RANK_MAX);
}

static bool read_axis(struct field_reader *reader, const struct value *value, void *into)
{
    static const struct field NUMBER = { .kind = FIELD_INTEGER,
                                         .least = -JSON_RANK_MAX,
                                         .code = FAULT_OPTION };
    struct softmax_asked *asked = into;
    const int rank = asked->input.rank;
    asked->axis = -1;
    reader->field = &NUMBER;
    if (value->kind != VALUE_NULL && !field_read_single(reader, value, &asked->axis))
        return false;
    if (asked->axis < -rank || asked->axis >= rank)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "axis is %" PRId64 "; input has %d dimensions, so expected %d to %d",
                            asked->axis, rank, -rank, rank - 1);
    if (asked->axis < 0)
        asked->axis += rank;
    return true;
}

/* Lengths have the shape of one or more of the first dimensions of input, without the last: one
 * length for each row, or one for all rows below. */
static bool check_lengths_shape(struct field_reader *reader, const struct array *input,
                                const struct json_numbers *lengths)
{
    const int rank_max = input->rank > 1 ? input->rank - 1 : 1;
    bool fits = lengths->rank <= rank_max;
    for (int i = 0; fits && i < lengths->rank; i++)
        fits = lengths->shape[i] == (input->rank > 1 ? input->shape[i] : 1);
    return fits
           || fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                           "kv_len does not have the shape of the first dimensions of input, "
                           "without its last");
}

static bool read_length_list(struct field_reader *reader, const struct value *value,
                             struct softmax_asked *asked)
{
    const struct json_numbers *lengths =
        field_find_numbers(reader, value, "a number, or an array of them");
    return lengths && check_lengths_shape(reader, &asked->input, lengths)
           && field_expect_numbers(reader, lengths, false)
           && field_copy_integers(reader, lengths, &asked->visible, &asked->visible_count);
}

static bool read_one_length(struct field_reader *reader, const struct value *value,
                            struct softmax_asked *asked)
{
    static const struct field NUMBER = { .kind = FIELD_INTEGER, .code = FAULT_LENGTH };
    int64_t *visible = arena_calloc(reader->arena, 1, sizeof *visible);
    if (!visible)
        return fault_no_memory(reader->fault);
    asked->visible = visible;
    asked->visible_count = 1;
    reader->field = &NUMBER;
    return field_read_single(reader, value, visible);
}

static bool read_kv_len(struct field_reader *reader, const struct value *value, void *into)
{
    struct softmax_asked *asked = into;
    const struct array *input = &asked->input;
    if (value->kind == VALUE_NULL)
        return true;
    const bool is_list = value->kind == VALUE_NUMBERS || value->kind == VALUE_LIST;
    if (!(is_list ? read_length_list : read_one_length)(reader, value, asked))
        return false;
    if (asked->axis != input->rank - 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "kv_len counts along the last axis; axis is %" PRId64, asked->axis);
    for (int64_t i = 0; i < asked->visible_count; i++)
        if (asked->visible[i] > input->shape[asked->axis])
            return fault_set_at(reader->fault, reader->pointer, FAULT_LENGTH,
                                "kv_len is %" PRId64 "; a row has %" PRId64 " numbers",
                                asked->visible[i], input->shape[asked->axis]);
    return true;
}

static const struct field ROWS[] = {
    { .name = "input",
      .kind = FIELD_ARRAY,
      .flags = FIELD_TENSOR | FIELD_NULLS | FIELD_REQUIRED,
      .offset = offsetof(struct softmax_asked, input),
      .check = check_input },
    { .name = "axis", .kind = FIELD_OWN, .flags = FIELD_ADDRESS, .own = read_axis },
    { .name = "kv_len",
      .kind = FIELD_OWN,
      .flags = FIELD_ADDRESS,
      .code = FAULT_LENGTH,
      .own = read_kv_len },
};

static const struct field_table FIELDS = { .rows = ROWS,
                                           .count = sizeof ROWS / sizeof ROWS[0],
                                           .in_order = true,
                                           .nameless = "input",
                                           .bytes = sizeof(struct softmax_asked) };

/* ------------------------------------------------------------------ plan -- */

/* Numbers in text are floats of the call's own, which become the output. Those of a file become
 * floats in the arena. */
static bool take_numbers(struct softmax *job, struct fault *fault)
{
    const struct array *input = &job->asked.input;
    uint64_t count = 1; /* of no numbers it may overflow on its way to 0 */
    for (int i = 0; i < input->rank; i++)
        count *= (uint64_t)input->shape[i];
    job->number_count = (int64_t)count;
    float *numbers = (float *)input->data;
    if (job->call->form.format != &format_json) {
        numbers = arena_alloc(&job->call->arena, count * sizeof *numbers);
        if (!numbers)
            return fault_no_memory(fault);
        dtype_read(numbers, input->data, input->dtype, count);
    }
    job->softmax.input = job->softmax.output = numbers;
    return true;
}

static void settle_shape(struct softmax *job)
{
    const struct softmax_asked *asked = &job->asked;
    struct attn_softmax *softmax = &job->softmax;
    softmax->outer = softmax->inner = softmax->rows_per_visible = 1;
    softmax->length = asked->input.shape[asked->axis];
    /* No overflow: the product of the shape is the count of numbers, or 0. */
    for (int i = 0; i < asked->input.rank && job->number_count > 0; i++) {
        if (i < asked->axis)
            softmax->outer *= asked->input.shape[i];
        if (i > asked->axis)
            softmax->inner *= asked->input.shape[i];
    }
    job->row_count = job->number_count > 0 ? softmax->outer * softmax->inner : 0;
    job->rows_per_task =
        softmax->length < TASK_NUMBERS && softmax->length > 0 ? TASK_NUMBERS / softmax->length : 1;
    softmax->visible = asked->visible;
    if (asked->visible_count > 0 && job->row_count > asked->visible_count)
        softmax->rows_per_visible = job->row_count / asked->visible_count;
}

static bool softmax_plan(struct softmax *job, struct fault *fault)
{
    const size_t bytes_max = job->call->service->config->answer_bytes_max;
    if (!take_numbers(job, fault))
        return false;
    settle_shape(job);
    return (size_t)job->number_count <= bytes_max / INFER_ANSWER_BYTES_PER_NUMBER
           || fault_set(fault, FAULT_ANSWER_TOO_LARGE,
                        "the answer may take more than the %zu bytes that are given "
                        "(%d for each number)",
                        bytes_max, INFER_ANSWER_BYTES_PER_NUMBER);
}

/* ------------------------------------------------------------------ call -- */

/* A softmax is given as JSON or as an .npy file. Where Accept prefers files of safetensors, the
 * answer is JSON. */
static bool choose_answer(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    const char *const types[] = { format_npy.content_type, format_safetensors.content_type,
                                  format_json.content_type };
    const int usual = call->form.format == &format_npy ? 0 : 2;
    const char *accept = exchange_header(exchange, HTTP_HEADER_ACCEPT);
    (void)fault;
    call->answer = accept_choose(accept, types, 3, usual) == 0 ? &format_npy : &format_json;
    return true;
}

static void say(const struct call *call, struct writer *writer)
{
    const struct softmax *job = softmax_of(call);
    const struct array *input = &job->asked.input;
    say_array(writer, "output", job->softmax.output, ATTN_F32, input->rank, input->shape);
}

static void init(struct call *call)
{
    softmax_of(call)->call = call;
    call->job.tasks_at_once = 0;
}

/* The body is not needed once it is read. */
static bool read(struct call *call, struct fault *fault)
{
    struct softmax *job = softmax_of(call);
    const bool good =
        operation_read_fields(call, &FIELDS, &job->asked, fault) && softmax_plan(job, fault);
    call_drop_body(call);
    if (!good)
        return false;
    infer_cost_plan_softmax(&call->cost, job->number_count, call->answer_coding);
    call->item_count = 1;
    call->answer_bytes = (size_t)job->number_count * INFER_ANSWER_BYTES_PER_NUMBER;
    return true;
}

static int64_t tasks(struct call *call, int stage)
{
    const struct softmax *job = softmax_of(call);
    if (stage > 0)
        return 0;
    return job->row_count / job->rows_per_task + (job->row_count % job->rows_per_task != 0);
}

static void softmax_run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    const struct softmax *job = softmax_of(call);
    const int64_t first = task * job->rows_per_task, left = job->row_count - first;
    (void)stage;
    (void)worker;
    attn_softmax_run(&job->softmax, first, left < job->rows_per_task ? left : job->rows_per_task);
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

static const struct format *const FORMATS[] = { &format_json, &format_npy, NULL };
static const struct call_kind KIND = { .work_bytes = sizeof(struct softmax),
                                       .init = init,
                                       .read = operation_read,
                                       .tasks = tasks,
                                       .run = softmax_run,
                                       .write = operation_write,
                                       .record = record,
                                       .drop = operation_free };
const struct operation softmax_call = { .kind = &KIND,
                                        .formats = FORMATS,
                                        .address = &FIELDS,
                                        .begin = choose_answer,
                                        .read = read,
                                        .say = say };
