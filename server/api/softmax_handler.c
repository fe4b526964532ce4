/* softmax_handler.c - see softmax_handler.h.
 *
 * A job of three steps: one task reads and checks, others compute blocks of rows, the end writes;
 * a long answer is written by tasks too.
 * The answer is computed where the numbers of the request lie, so it takes no memory of its own. */
#include "api/softmax_handler.h"

#include "base/clock.h"
#include "format/coding.h"
#include "infer/answer_pieces.h"
#include "infer/infer_cost.h"
#include "infer/infer_results.h"
#include "service/admission.h"
#include "service/service.h"
#include "softmax.h"
#include "text/text.h"
#include "watch/metrics_inference.h"
#include "watch/request_record.h"
#include "wire/v1_fields.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TASK_NUMBERS = 16384, LONG_NUMBERS = 65536 };

struct softmax_job {
    struct job job; /* first: a job is its softmax_job */
    struct service *service;
    struct exchange *exchange;
    struct byte_slice body;
    enum coding coding, answer_coding;
    struct infer_cost cost;

    struct json_document document;
    struct infer_request memory; /* no items: its arena, and which numbers may come */
    struct fault fault;

    const struct json_numbers *input;
    int64_t axis;
    struct attn_softmax softmax;
    int64_t row_count, rows_per_task;
    struct text text; /* of the answer, and the tensor in it where it is long */
    struct answer_pieces pieces;
    struct request_clock clock;
};

/* --------------------------------------------------------------- reading -- */

static bool read_input(struct softmax_job *job, struct v1_reader *reader, const cJSON *node)
{
    v1_point_to(reader, "input");
    if (!node || cJSON_IsNull(node))
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "input is missing");
    job->input = v1_read_numbers(reader, node, "an array of numbers");
    return job->input && v1_expect_numbers(reader, job->input, true);
}

static bool read_axis(struct softmax_job *job, struct v1_reader *reader, const cJSON *node)
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

static void settle_shape(struct softmax_job *job)
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

/* A list of lengths has the shape of input's first dimensions, as many of them as it likes but the
 * last: one length for each row, or one for all the rows below. */
static bool check_lengths_shape(const struct softmax_job *job, struct v1_reader *reader,
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

static bool read_kv_len(struct softmax_job *job, struct v1_reader *reader, const cJSON *node)
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
        visible = arena_calloc(&job->memory.arena, 1, sizeof *visible);
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

static bool read_request(struct softmax_job *job, struct fault *fault)
{
    const cJSON *root = job->document.root;
    const size_t bytes_max = job->service->config->answer_bytes_max;
    struct v1_reader reader = { .document = &job->document,
                                .request = &job->memory,
                                .fault = fault };
    if (!cJSON_IsObject(root))
        return fault_set(fault, FAULT_TYPE, "the body is %s; expected an object",
                         json_kind(reader.document, root));
    if (!check_members(&reader, root)
        || !read_input(job, &reader, cJSON_GetObjectItemCaseSensitive(root, "input"))
        || !read_axis(job, &reader, cJSON_GetObjectItemCaseSensitive(root, "axis")))
        return false;
    settle_shape(job);
    if (!read_kv_len(job, &reader, cJSON_GetObjectItemCaseSensitive(root, "kv_len")))
        return false;
    if ((size_t)job->input->count > bytes_max / INFER_ANSWER_BYTES_PER_NUMBER)
        return fault_set(fault, FAULT_ANSWER_TOO_LARGE,
                         "the answer may take more than the %zu bytes that are given "
                         "(%d for each number)",
                         bytes_max, INFER_ANSWER_BYTES_PER_NUMBER);
    return true;
}

/* ------------------------------------------------------------------- job -- */

static struct softmax_job *softmax_of(struct job *job)
{
    return (struct softmax_job *)job;
}

static void forget_body(struct softmax_job *job)
{
    free((void *)job->body.data);
    job->body.data = NULL;
}

/* What is left to do is known now, and may be too much. */
static void plan(struct softmax_job *softmax)
{
    int64_t more_items;
    infer_cost_plan_softmax(&softmax->cost, softmax->input->count, softmax->answer_coding);
    const struct admission_cost left = infer_cost_left_to_admit(&softmax->cost, softmax->service);
    admission_takes_planned(softmax->service, &softmax->job, 1, left, &more_items, &softmax->fault);
}

static void read_and_plan(struct softmax_job *softmax)
{
    const struct config *config = softmax->service->config;
    struct memory_share *share = exchange_memory(softmax->exchange);
    const struct json_options options = { .nonfinite_allowed = config->json_nonfinite_allowed,
                                          .values_max = JSON_REQUEST_VALUES_MAX,
                                          .memory = share };
    softmax->memory.nonfinite_allowed = config->json_nonfinite_allowed;
    arena_init(&softmax->memory.arena, service_request_bytes_max(config));
    softmax->memory.arena.memory = share;
    void *memory = (void *)softmax->body.data;
    const bool read = coding_unpack(softmax->coding, &softmax->body, &memory,
                                    config->body_bytes_max, share, &softmax->fault)
                      && json_read(&softmax->document, softmax->body.data ? softmax->body.data : "",
                                   softmax->body.size, &options, &softmax->fault);
    forget_body(softmax);
    if (read && read_request(softmax, &softmax->fault))
        plan(softmax);
}

static void run_rows(struct softmax_job *softmax, int64_t task)
{
    const int64_t first = task * softmax->rows_per_task;
    const int64_t left = softmax->row_count - first;
    attn_softmax_run(&softmax->softmax, first,
                     left < softmax->rows_per_task ? left : softmax->rows_per_task);
}

static const enum infer_phase phases[] = { INFER_READ, INFER_COMPUTE, INFER_WRITE };

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct softmax_job *softmax = softmax_of(job);
    struct infer_stopwatch watch;
    (void)worker;
    if (stage == 0)
        softmax->clock.begun_ns = clock_now_ns();
    infer_cost_start(&softmax->cost, phases[stage], &watch);
    if (stage == 0)
        read_and_plan(softmax);
    else if (stage == 1)
        run_rows(softmax, task);
    else
        answer_pieces_write(&softmax->pieces, &softmax->text, task);
    infer_cost_stop(&softmax->cost, phases[stage], &watch);
}

static void write_text(struct softmax_job *softmax)
{
    text_init(&softmax->text, 2 * softmax->service->config->answer_bytes_max + 65536);
    softmax->text.memory = exchange_memory(softmax->exchange);
    if (softmax->input->count >= LONG_NUMBERS)
        softmax->text.deferred = &softmax->pieces.deferred;
    text_raw(&softmax->text, "{\"output\":");
    text_tensor(&softmax->text, softmax->softmax.output, softmax->input->rank,
                softmax->input->shape);
    text_raw(&softmax->text, "}\n");
    answer_pieces_cut(&softmax->pieces, &softmax->text, &softmax->fault);
}

static int64_t stage_tasks(struct job *job, int stage)
{
    struct softmax_job *softmax = softmax_of(job);
    if (stage == 1)
        softmax->clock.parsed_ns = clock_now_ns();
    if (softmax->fault.code != FAULT_NONE || stage > 2)
        return 0;
    if (stage == 1 && softmax->row_count > 0)
        return softmax->row_count / softmax->rows_per_task
               + (softmax->row_count % softmax->rows_per_task != 0);
    struct infer_stopwatch watch;
    softmax->clock.computed_ns = clock_now_ns();
    infer_cost_start(&softmax->cost, INFER_WRITE, &watch);
    write_text(softmax);
    infer_cost_stop(&softmax->cost, INFER_WRITE, &watch);
    return softmax->pieces.count;
}

/* Rows count as query rows, the numbers of one as keys. */
static void record(struct softmax_job *softmax)
{
    struct request_record *record = exchange_record(softmax->exchange);
    request_record_durations(record, &softmax->clock, clock_now_ns());
    record->fault = softmax->fault.code;
    if (record->fault == FAULT_NONE) {
        record->item_count = 1;
        record->q_len = softmax->row_count;
        record->kv_len = softmax->softmax.length;
        record->cost_ns = infer_cost_ns(&softmax->cost);
    }
    metrics_inference(0, record);
}

static void reply(struct softmax_job *softmax)
{
    const int part_count = (int)softmax->pieces.count;
    struct byte_slice *parts = softmax->pieces.parts;
    if (part_count == 0) {
        exchange_reply_text(softmax->exchange, 200, "application/json", &softmax->text);
        return;
    }
    softmax->pieces.parts = NULL; /* the exchange's */
    answer_pieces_free(&softmax->pieces);
    text_free(&softmax->text);
    exchange_reply_parts(softmax->exchange, 200, "application/json", parts, part_count, free,
                         parts);
}

static void done(struct job *job, enum job_outcome outcome)
{
    struct softmax_job *softmax = softmax_of(job);
    if (softmax->clock.computed_ns == 0)
        softmax->clock.computed_ns = clock_now_ns();
    service_check_outcome(outcome, &softmax->fault);
    if (softmax->fault.code == FAULT_NONE)
        infer_cost_learn(&softmax->cost);
    record(softmax);
    forget_body(softmax);
    arena_free(&softmax->memory.arena);
    json_free(&softmax->document);
    if (softmax->fault.code == FAULT_NONE) {
        reply(softmax);
        return;
    }
    answer_pieces_free(&softmax->pieces);
    text_free(&softmax->text);
    exchange_fail(softmax->exchange, &softmax->fault);
}

/* --------------------------------------------------------------- handler -- */

static const struct job_kind softmax_kind = { stage_tasks, run, done };

static void end(void *owner, enum exchange_end why)
{
    struct softmax_job *softmax = owner;
    scheduler_stop_job(softmax->service->scheduler, &softmax->job,
                       why == EXCHANGE_LEFT ? JOB_LEFT : JOB_DEADLINE);
}

void softmax_handle(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    struct fault fault = { .code = FAULT_NONE };
    struct softmax_job *softmax = NULL;
    int64_t deadline_ns = 0;
    if (service_accepts(service, &fault) && service_takes_json(exchange, &fault)
        && service_read_deadline(service, exchange, &deadline_ns, &fault)) {
        softmax = calloc(1, sizeof *softmax);
        if (!softmax)
            fault_no_memory(&fault);
    }
    if (!softmax) {
        exchange_fail(exchange, &fault);
        return;
    }
    softmax->job.kind = &softmax_kind;
    softmax->job.deadline_ns = deadline_ns;
    softmax->clock.started_ns = exchange_started_ns(exchange);
    softmax->clock.submitted_ns = clock_now_ns();
    softmax->service = service;
    softmax->exchange = exchange;
    softmax->coding = exchange_body_coding(exchange);
    softmax->answer_coding = exchange_answer_coding(exchange);
    softmax->body = exchange_take_body(exchange);
    infer_cost_read(&softmax->cost, exchange, softmax->body.size);
    const struct admission_cost certain = infer_cost_to_admit(&softmax->cost, service);
    softmax->job.cost_ns = certain.ns;
    if (!admission_takes(service, &softmax->job, certain, exchange_was_judged(exchange), &fault)) {
        forget_body(softmax);
        free(softmax);
        exchange_fail(exchange, &fault);
        return;
    }
    exchange_park(exchange, deadline_ns, end, free, softmax);
    if (scheduler_submit(service->scheduler, &softmax->job))
        return;
    service_refuse_overloaded(service, &fault);
    forget_body(softmax);
    exchange_fail(exchange, &fault);
}
