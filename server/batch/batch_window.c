/* SPDX-License-Identifier: Apache-2.0 */
/* batch_window.c - see batch_window.h. */
#include "batch/batch_window.h"

#include "base/clock.h"
#include "formats/format.h"
#include "operations/operations.h"
#include "telemetry/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of the budget of memory that answers and bodies of the window take, so that requests
 * have room to be computed. After so many refusals for load a request is computed alone. */
enum { HELD_PART = 8, REFUSALS_MAX = 4, FIRST_COMPUTED_MAX = 64 };

/* The most that a request may be predicted to take which this thread computes before it looks for
 * answers again. */
enum { HELP_MOST_NS = 1000000 };

/* What a batch takes: the operations that need nothing but their body. */
static const struct row {
    const char *method, *path;
    enum access_scope scope;
    const struct operation *operation;
} ROWS[] = {
#define ROW(METHOD, PATTERN, SCOPE, OPERATION) { METHOD, PATTERN, ACCESS_##SCOPE, &(OPERATION) },
    OPERATION_MAP(ROW)
#undef ROW
};

enum { ROW_COUNT = sizeof ROWS / sizeof ROWS[0] };

static struct batch_place *place_at(const struct batch_window *window, int64_t number)
{
    return &window->places[number % BATCH_WINDOW_MAX];
}

bool batch_window_init(struct batch_window *window, struct service *service, bool asks_for_files,
                       struct fault *fault)
{
    const struct config *config = service->config;
    *window = (struct batch_window){
        .service = service,
        .local = local_create(service, config->body_bytes_max, metrics_route("", "batch")),
        .accept = asks_for_files ? format_safetensors.content_type : NULL,
        .places = calloc(BATCH_WINDOW_MAX, sizeof *window->places),
        .computed_max = FIRST_COMPUTED_MAX,
        .held_bytes_max = config->memory_bytes_max / HELD_PART,
    };
    if (window->local && window->places)
        return true;
    batch_window_free(window);
    return fault_no_memory(fault);
}

/* ------------------------------------------------------------------ lines, handed in -- */

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Notes the id of a line; a fault where a line of its chunk has had it. */
static bool take_id(struct batch_window *window, const struct batch_line *line, struct fault *fault)
{
    if (tfind(line->id, &window->ids, compare_ids))
        return fault_set_at(fault, "/custom_id", FAULT_DUPLICATE,
                            "custom_id '%.100s' has come before in this chunk of lines", line->id);
    char *id = strdup(line->id);
    if (id && tsearch(id, &window->ids, compare_ids))
        return true;
    free(id);
    return fault_no_memory(fault);
}

static const struct operation *refuse_url(const char *url, struct fault *fault)
{
    char paths[FAULT_MESSAGE_MAX] = "";
    size_t used = 0;
    for (int i = 0; i < ROW_COUNT; i++)
        if (ROWS[i].scope == ACCESS_INFER && used < sizeof paths)
            used += (size_t)snprintf(paths + used, sizeof paths - used, "%s%s", used ? ", " : "",
                                     ROWS[i].path);
    fault_set_at(fault, "/url", FAULT_NOT_FOUND, "url is '%.60s'; a batch takes %s", url, paths);
    return NULL;
}

static const struct operation *find_operation(const struct batch_line *line, struct fault *fault)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        if (ROWS[i].scope != ACCESS_INFER || strcmp(line->url, ROWS[i].path) != 0)
            continue;
        if (strcmp(line->method, ROWS[i].method) == 0)
            return ROWS[i].operation;
        fault_set_at(fault, "/method", FAULT_METHOD, "method is '%.20s'; %s takes %s", line->method,
                     ROWS[i].path, ROWS[i].method);
        return NULL;
    }
    return refuse_url(line->url, fault);
}

/* Reads a line, and finds its operation; NULL, with the fault. */
static const struct operation *read_line(struct batch_window *window, struct batch_place *place,
                                         struct batch_line *line, char *bytes, struct fault *fault)
{
    const bool good = batch_line_read(line, bytes, place->size, fault);
    place->has_id = line->has_id;
    place->id_size = line->id_size;
    memcpy(place->id, line->id, line->id_size + 1);
    if (!good || (place->refusals == 0 && !take_id(window, line, fault)))
        return NULL;
    return find_operation(line, fault);
}

/* Hands a line in. bytes NULL: it is too long. */
static bool hand_in(struct batch_window *window, struct batch_place *place, char *bytes,
                    struct fault *fault)
{
    struct batch_line line = { .has_id = false };
    struct fault wrong = { .code = FAULT_NONE };
    char number[32];
    const struct operation *operation = NULL;
    if (bytes)
        operation = read_line(window, place, &line, bytes, &wrong);
    else
        fault_set(&wrong, FAULT_TOO_LARGE, "the line is longer than %zu bytes (--body-max)",
                  window->service->config->body_bytes_max + BATCH_BESIDE_MAX);
    snprintf(number, sizeof number, "line-%" PRId64, place->number);
    const struct local_request request = {
        .method = operation ? line.method : "POST",
        .path = operation ? line.url : "/",
        .id = place->has_id ? place->id : number,
        .other_id = number,
        .accept = window->accept,
        .body = operation ? line.body : (struct byte_slice){ "", 0 },
        .owner = place,
    };
    struct fault of_body;
    struct exchange *exchange = local_open(window->local, &request, &of_body);
    if (!exchange)
        return fault_no_memory(fault);
    if (operation)
        wrong = of_body;
    place->state = BATCH_COMPUTED;
    place->held_bytes = request.body.size;
    window->alone = window->computed_count++ == 0 ? place : NULL;
    window->held_bytes += place->held_bytes;
    if (wrong.code != FAULT_NONE)
        exchange_fail(exchange, &wrong);
    else
        operation_handle(exchange, operation);
    local_handled(exchange);
    return true;
}

bool batch_window_has_room(const struct batch_window *window)
{
    return window->refused_count == 0 && window->computed_count < window->computed_max
           && window->next - window->first < BATCH_WINDOW_MAX
           && (window->held_bytes < window->held_bytes_max || window->next == window->first);
}

static bool is_blank(const struct batch_text *text)
{
    for (size_t i = 0; i < text->size; i++)
        if (!strchr(" \t\r", text->bytes[i]) || !text->bytes[i])
            return false;
    return !text->is_too_long;
}

bool batch_window_add(struct batch_window *window, const struct batch_text *text,
                      struct fault *fault)
{
    struct batch_place *place = place_at(window, window->next);
    if (is_blank(text))
        return true;
    *place =
        (struct batch_place){ .number = text->number, .offset = text->offset, .size = text->size };
    text_init(&place->answer, SIZE_MAX);
    text_init(&place->file, SIZE_MAX);
    window->next++;
    return hand_in(window, place, text->is_too_long ? NULL : text->bytes, fault);
}

void batch_window_end_chunk(struct batch_window *window, int64_t next_chunk)
{
    *place_at(window, window->next++) =
        (struct batch_place){ .state = BATCH_CHUNK_END, .number = next_chunk };
    tdestroy(window->ids, free);
    window->ids = NULL;
}

/* ------------------------------------------------------------------ refused for load -- */

/* Whether a request may get another answer where fewer others are computed. */
static bool is_of_load(enum fault_code code)
{
    return code == FAULT_OVERLOADED || code == FAULT_MEMORY || code == FAULT_DEADLINE;
}

static void note_refusal(struct batch_window *window, struct batch_place *place)
{
    place->state = BATCH_REFUSED;
    place->refusals++;
    window->refused_count++;
    window->computed_max =
        place->refusals >= REFUSALS_MAX || window->computed_max < 2 ? 1 : window->computed_max / 2;
}

bool batch_window_retry(struct batch_window *window, const struct batch_source *source,
                        struct fault *fault)
{
    for (int64_t i = window->first; i < window->next && window->refused_count > 0; i++) {
        struct batch_place *place = place_at(window, i);
        char *bytes;
        if (place->state != BATCH_REFUSED)
            continue;
        if (window->computed_count >= window->computed_max)
            break;
        if (!batch_source_again(source, place->offset, place->size, &bytes, fault))
            return false;
        window->refused_count--;
        const bool good = hand_in(window, place, bytes, fault);
        free(bytes);
        if (!good)
            return false;
    }
    return true;
}

/* ----------------------------------------------------------------------------- answers -- */

static void write_parts(struct text *text, const struct local_answer *answer)
{
    for (int i = 0; i < answer->part_count; i++)
        text_bytes(text, answer->parts[i].data, answer->parts[i].size);
}

/* The answer as it came, without its line feed. */
static void write_body(struct text *text, const struct local_answer *answer)
{
    const size_t before = text->used;
    write_parts(text, answer);
    if (text->failed == FAULT_NONE && text->used > before && text->data[text->used - 1] == '\n')
        text->used--;
    if (text->used == before)
        text_raw(text, "null");
}

/* What is no tensor in an answer that is a file. */
static void write_metadata(struct text *text, const struct safetensors *file)
{
    text_raw(text, "{");
    for (int64_t i = 0; i < file->metadata_count; i++) {
        const struct safetensors_pair *pair = &file->metadata[i];
        text_raw(text, i > 0 ? "," : "");
        text_string_bytes(text, pair->key, pair->key_length);
        text_raw(text, ":");
        text_string_bytes(text, pair->value, pair->value_length);
    }
    text_raw(text, "}");
}

/* Keeps an answer that is a file until its turn comes. */
static bool keep_file(struct batch_place *place, const struct local_answer *answer,
                      struct fault *fault)
{
    struct text *file = &place->file;
    write_parts(file, answer);
    return text_finish(file, fault)
           && safetensors_read(&place->tensors, file->data, file->used, fault);
}

static bool write_answer(struct batch_place *place, const struct local_answer *answer,
                         struct fault *fault)
{
    struct text *text = &place->answer;
    const char *type = answer->content_type;
    const bool is_file = type && strcmp(type, format_safetensors.content_type) == 0;
    if (is_file && !keep_file(place, answer, fault))
        return false;
    text_format(text, "{\"id\":\"line-%" PRId64 "\",\"custom_id\":", place->number);
    if (place->has_id)
        text_string_bytes(text, place->id, place->id_size);
    else
        text_raw(text, "null");
    text_format(text, ",\"response\":{\"status_code\":%d,\"request_id\":", answer->status);
    text_string(text, answer->request_id);
    text_raw(text, ",\"body\":");
    if (is_file)
        write_metadata(text, &place->tensors);
    else
        write_body(text, answer);
    text_raw(text, "},\"error\":null}\n");
    return text_finish(text, fault);
}

static bool take(struct batch_window *window, const struct local_answer *answer,
                 struct fault *fault)
{
    struct batch_place *place = answer->owner;
    bool good = true;
    window->computed_count--;
    window->held_bytes -= place->held_bytes;
    place->held_bytes = 0;
    const bool was_alone = window->alone == place;
    window->alone = NULL;
    if (is_of_load(answer->code) && !was_alone) {
        note_refusal(window, place);
    } else {
        good = write_answer(place, answer, fault);
        place->state = BATCH_ANSWERED;
        place->held_bytes = place->answer.used + place->file.used + place->tensors.header_size;
        window->held_bytes += place->held_bytes;
        if (window->computed_max < BATCH_WINDOW_MAX)
            window->computed_max++;
    }
    local_end(answer);
    return good;
}

bool batch_window_take(struct batch_window *window, int64_t deadline_ns, struct fault *fault)
{
    struct local_answer answer;
    bool good = true;
    if (window->computed_count > 0
        && scheduler_relieve(window->service->scheduler, HELP_MOST_NS) > 0)
        deadline_ns = 0;
    while (good && window->computed_count > 0 && local_next(window->local, deadline_ns, &answer)) {
        good = take(window, &answer, fault);
        deadline_ns = 0; /* those that have come, too */
    }
    return good;
}

struct batch_place *batch_window_first(const struct batch_window *window)
{
    struct batch_place *place = place_at(window, window->first);
    const bool is_ready = window->first < window->next
                          && (place->state == BATCH_ANSWERED || place->state == BATCH_CHUNK_END);
    return is_ready ? place : NULL;
}

static void free_answer(struct batch_place *place)
{
    text_free(&place->answer);
    text_free(&place->file);
    safetensors_free(&place->tensors);
}

void batch_window_pass(struct batch_window *window)
{
    struct batch_place *place = place_at(window, window->first++);
    window->held_bytes -= place->held_bytes;
    free_answer(place);
}

void batch_window_free(struct batch_window *window)
{
    struct local_answer answer;
    for (; window->computed_count > 0; window->computed_count--)
        if (local_next(window->local, INT64_MAX, &answer))
            local_end(&answer);
    for (; window->places && window->first < window->next; window->first++)
        free_answer(place_at(window, window->first));
    tdestroy(window->ids, free);
    local_free(window->local);
    free(window->places);
    *window = (struct batch_window){ .service = NULL };
}
