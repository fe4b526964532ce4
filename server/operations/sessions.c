/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c - what is done about a session, except attention over it.
 *
 * Each is a call of one task. What is about a session that is there takes its turn among the calls
 * of the session, by a ticket that it takes when its request has come. */
#include "operations/sessions.h"

#include "access/access_key.h"
#include "base/clock.h"
#include "call/call_formats.h"
#include "call/model_access.h"
#include "call/operation.h"
#include "host/config_value.h"
#include "operations/say.h"
#include "operations/session/session_file_format.h"
#include "operations/session/session_path.h"
#include "operations/session/session_store.h"
#include "operations/session/session_turn.h"
#include "operations/spread/spread.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* ----------------------------------------------------------------------- fields -- */

#define AT(member)      offsetof(struct session_settings, member)
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

static int compare_numbers(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return one < other ? -1 : one > other;
}

static bool read_layers(struct field_reader *reader, const struct value *value, void *into)
{
    struct session_settings *settings = into;
    const int64_t *layers = NULL;
    const struct json_numbers *numbers =
        field_read_numbers(reader, value, "an array of layer numbers");
    if (!numbers)
        return false;
    if (numbers->rank != 1 || numbers->count == 0)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "layers is %s; expected a list of layer numbers, such as [0,1]",
                            numbers->count == 0 ? "empty" : "no flat list");
    if (!field_copy_integers(reader, numbers, &layers, &settings->layer_count))
        return false;
    settings->layers = (int64_t *)layers;
    qsort(settings->layers, (size_t)settings->layer_count, sizeof *layers, compare_numbers);
    for (int64_t i = 1; i < settings->layer_count; i++)
        if (layers[i] == layers[i - 1])
            return fault_set_at(reader->fault, reader->pointer, FAULT_DUPLICATE,
                                "layers has %" PRId64 " twice", layers[i]);
    return true;
}

static bool read_dtype(struct field_reader *reader, const struct value *value, void *into)
{
    if (value->kind != VALUE_STRING)
        return field_wrong_type(reader, value, "\"f32\", \"f16\", \"bf16\" or \"int8\"");
    const struct session_file_dtype *dtype = session_file_dtype_named(value->string);
    if (!dtype)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "there is no dtype '%.40s'; expected f32, f16, bf16 or int8",
                            value->string);
    ((struct session_settings *)into)->dtype = dtype->dtype;
    return true;
}

static bool read_ttl(struct field_reader *reader, const struct value *value, void *into)
{
    int64_t *ttl_ns = &((struct session_settings *)into)->ttl_ns;
    if (value->kind != VALUE_STRING)
        return field_wrong_type(reader, value, "a time such as \"10m\"");
    if (config_value_time(value->string, ttl_ns) && *ttl_ns > 0 && *ttl_ns <= SESSION_TTL_MAX_NS)
        return true;
    return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                        "ttl is '%.40s'; expected a time above 0 and of at most 24h, such as "
                        "\"90s\", \"10m\" or \"1h\"",
                        value->string);
}

static bool check_id(struct field_reader *reader, const void *value)
{
    return session_id_check(*(const char *const *)value, reader->fault);
}

#define INTEGER_OF(NAME, LEAST, CODE)                                                              \
    {                                                                                              \
        .name = #NAME, .kind = FIELD_INTEGER, .offset = AT(NAME), .least = (LEAST),                \
        .code = FAULT_##CODE                                                                       \
    }
#define TTL                                                                                        \
    {                                                                                              \
        .name = "ttl", .kind = FIELD_OWN, .own = read_ttl                                          \
    }
#define EVICTABLE                                                                                  \
    {                                                                                              \
        .name = "evictable", .kind = FIELD_BOOL, .offset = AT(is_evictable),                       \
        .has = AT(has_evictable)                                                                   \
    }
#define ID                                                                                         \
    {                                                                                              \
        .name = "id", .kind = FIELD_STRING, .offset = AT(id), .check = check_id                    \
    }

static const struct field CREATE_ROWS[] = {
    { .name = "model", .kind = FIELD_STRING, .offset = AT(model_name) },
    { .name = "layers", .kind = FIELD_OWN, .own = read_layers },
    { .name = "dtype", .kind = FIELD_OWN, .own = read_dtype },
    INTEGER_OF(kv_len_max, 1, LENGTH),
    TTL,
    EVICTABLE,
    ID,
    INTEGER_OF(window, 1, OPTION),
    INTEGER_OF(first_keys, 0, OPTION),
    { .name = "spread", .kind = FIELD_BOOL, .offset = AT(spread) },
    INTEGER_OF(spread_rows, 1, OPTION),
};
static const struct field CHANGE_ROWS[] = { TTL, EVICTABLE };
static const struct field FORK_ROWS[] = { ID, TTL };
static const struct field TRUNCATE_ROWS[] = { INTEGER_OF(kv_len, 0, LENGTH) };

#define TABLE_OF(ROWS)                                                                             \
    {                                                                                              \
        .rows = (ROWS), .count = COUNT_OF(ROWS), .policy = FIELDS_LISTED,                          \
        .bytes = sizeof(struct session_settings)                                                   \
    }

const struct field_table session_create_fields = TABLE_OF(CREATE_ROWS);
const struct field_table session_change_fields = TABLE_OF(CHANGE_ROWS);
const struct field_table session_fork_fields = TABLE_OF(FORK_ROWS);
const struct field_table session_truncate_fields = TABLE_OF(TRUNCATE_ROWS);

bool session_settings_read(struct session_settings *settings, const struct field_table *table,
                           const struct message *message, struct arena *arena, struct fault *fault)
{
    const struct field_reader reader = { .arena = arena, .fault = fault };
    const struct field_target target = { table, settings }, nothing = { .table = NULL };
    *settings =
        (struct session_settings){ .dtype = ATTN_F32, .kv_len_max = INT64_MAX, .kv_len = -1 };
    if (!fields_read(&reader, message, target, nothing))
        return false;
    if (settings->first_keys > 0 && settings->window == 0)
        return fault_set_at(fault, "/first_keys", FAULT_OPTION,
                            "first_keys is %" PRId64
                            " without a window; without one all keys are seen",
                            settings->first_keys);
    return table != &session_truncate_fields || settings->kv_len >= 0
           || fault_set_at(fault, "/kv_len", FAULT_FIELD,
                           "kv_len is missing; expected the length to go back to");
}

/* ---------------------------------------------------------------------- answers -- */

static void say_layers(struct writer *writer, const struct session *session)
{
    writer->kind->list(writer, "layers");
    for (int64_t i = 0; i < session->layer_count; i++)
        writer->kind->integer(writer, NULL, session->layers[i].number);
    writer->kind->end(writer);
    writer->kind->list(writer, "layer_kv_len");
    for (int64_t i = 0; i < session->layer_count; i++)
        writer->kind->integer(
            writer, NULL, atomic_load(&session_layer_read(session, &session->layers[i])->kv_len));
    writer->kind->end(writer);
}

static void say_bounds(struct writer *writer, const struct session *session)
{
    if (session->kv_len_max < INT64_MAX)
        writer->kind->integer(writer, "kv_len_max", session->kv_len_max);
    if (session->window > 0) {
        writer->kind->integer(writer, "window", session->window);
        writer->kind->integer(writer, "first_keys", session->first_keys);
    }
    writer->kind->integer(writer, "bytes", (int64_t)session_bytes(session));
    writer->kind->integer(writer, "bytes_reserved", (int64_t)session_bytes_held(session));
    writer->kind->flag(writer, "evictable", session->is_evictable);
}

/* Where its positions are. */
static void say_spread(struct writer *writer, struct spread *spread)
{
    const struct spread_peers *peers = spread_lines_peers(spread_home_lines(spread->home));
    struct spread_range *ranges;
    int64_t count;
    writer->kind->flag(writer, "spread", true);
    writer->kind->list(writer, "ranges");
    if (!spread_look(spread, &ranges, &count))
        count = 0;
    for (int64_t i = 0; i < count; i++) {
        writer->kind->object(writer, NULL);
        writer->kind->string(writer, "peer", peers->peers[ranges[i].peer].name);
        writer->kind->integer(writer, "first", ranges[i].first);
        writer->kind->integer(writer, "kv_len", ranges[i].count);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
    free(ranges);
}

void session_say(struct writer *writer, const struct session *session)
{
    const int64_t expires_ns = atomic_load(&session->used_ns) + session->ttl_ns;
    writer->kind->string(writer, "session", session->id);
    writer->kind->string(writer, "model", session->model->name);
    if (session->account)
        writer->kind->string(writer, "owner", session->account->name);
    writer->kind->string(writer, "dtype", session_file_dtype_of(session->dtype)->name);
    writer->kind->integer(writer, "kv_len", session_kv_len(session));
    say_layers(writer, session);
    say_bounds(writer, session);
    writer->kind->integer(writer, "age_ms", (clock_now_ns() - session->created_ns) / 1000000);
    writer->kind->integer(writer, "ttl_ms", session->ttl_ns / 1000000);
    say_end(writer, expires_ns);
    if (session->elsewhere)
        say_spread(writer, spread_of(session));
}

/* -------------------------------------------------------------------- the verbs -- */

struct change;

struct verb {
    const struct field_table *fields; /* of the body; NULL: none is read */
    bool (*run)(struct change *change, struct fault *fault);
    int status;
    bool is_about_one; /* of the path */
    bool may_be_empty; /* the body */
};

struct change {
    struct call call; /* first */
    const struct verb *verb;
    const struct access_key *key; /* the exchange holds it */
    struct arena arena;
    struct session_settings settings;
    struct session *session; /* of the path, held */
    struct session_turn turn;
    struct session_ticket ticket;
    struct session *made; /* held, for the answer */
};

static struct change *of(struct call *call)
{
    return (struct change *)call;
}

/* Where the caller takes a reference, the store has one of its own. */
static bool give_to_store(struct change *change, struct session *session, struct fault *fault)
{
    struct session_store *store = change->call.service->sessions;
    change->made = session_hold(session);
    return session_store_add(store, session, change->settings.id, change->key, fault);
}

static bool check_layers(const struct session_settings *settings, const struct model *model,
                         struct fault *fault)
{
    for (int64_t i = 0; i < settings->layer_count; i++)
        if (settings->layers[i] >= model->layer_count)
            return fault_set_at(fault, "/layers", FAULT_NOT_FOUND,
                                "layers has %" PRId64 "; model '%s' has %" PRId64
                                ", counted from 0",
                                settings->layers[i], model->name, model->layer_count);
    return true;
}

static bool all_layers(struct change *change, const struct model *model, struct fault *fault)
{
    struct session_settings *settings = &change->settings;
    if (settings->layers)
        return check_layers(settings, model, fault);
    settings->layer_count = model->layer_count;
    settings->layers =
        arena_calloc(&change->arena, (size_t)model->layer_count, sizeof *settings->layers);
    for (int64_t i = 0; settings->layers && i < settings->layer_count; i++)
        settings->layers[i] = i;
    return settings->layers || fault_no_memory(fault);
}

/* What a session that is spread cannot have: its parts see their keys alone. */
static bool check_spread(const struct session_settings *settings, const struct service *service,
                         const struct model *model, struct fault *fault)
{
    if (!service->spread)
        return fault_set_at(fault, "/spread", FAULT_OPTION,
                            "spread is true, and this daemon has no peers (--peers)");
    if (!model->parameterless)
        return fault_set_at(fault, "/model", FAULT_OPTION,
                            "spread is true and the model is '%s'; only a session of a model "
                            "without parameters, such as sdpa, can be spread",
                            model->name);
    const char *other = settings->window > 0         ? "window"
                        : settings->is_evictable     ? "evictable"
                        : settings->dtype == ATTN_I8 ? "dtype"
                                                     : NULL;
    char pointer[16];
    snprintf(pointer, sizeof pointer, "/%s", other ? other : "");
    return !other
           || fault_set_at(fault, pointer, FAULT_OPTION,
                           "spread is true, which does not go with %s%s", other,
                           other[0] == 'd' ? " int8" : "");
}

static bool begin_spread(struct change *change, struct session *session, struct fault *fault)
{
    const struct session_settings *settings = &change->settings;
    const struct service *service = change->call.service;
    if (!settings->spread)
        return settings->spread_rows == 0
               || fault_set_at(fault, "/spread_rows", FAULT_OPTION,
                               "spread_rows is %" PRId64 " without spread", settings->spread_rows);
    if (!check_spread(settings, service, session->model, fault))
        return false;
    struct spread *spread = spread_create(service->spread, settings->spread_rows);
    if (!spread)
        return fault_no_memory(fault);
    session->elsewhere = &spread->elsewhere;
    return true;
}

/* A peer that is this daemon itself would ask itself without end. */
static bool check_own_part(const struct change *change, struct fault *fault)
{
    const struct spread_home *home = change->call.service->spread;
    const char *id = change->settings.id;
    return !home || !id || !spread_lines_is_own_id(spread_home_lines(home), id)
           || fault_set_at(fault, "/id", FAULT_OPTION,
                           "id is '%.64s', which this daemon has made for a peer; it cannot be its "
                           "own peer (--peers)",
                           id);
}

static bool create(struct change *change, struct fault *fault)
{
    struct session_settings *settings = &change->settings;
    struct model *model;
    if (!check_own_part(change, fault))
        return false;
    if (!model_access_resolve(change->call.service->store, change->key, settings->model_name, "",
                              &model, fault)) {
        if (!fault->pointer[0])
            fault_pointer_append(fault->pointer, 0, "model");
        return false;
    }
    struct session *session = all_layers(change, model, fault)
                                  ? session_create(model, settings->layers, settings->layer_count)
                                  : NULL;
    model_release(model);
    if (!session)
        return fault->code != FAULT_NONE ? false : fault_no_memory(fault);
    session->dtype = settings->dtype;
    session->kv_len_max = settings->kv_len_max;
    session->window = settings->window;
    session->first_keys = settings->first_keys;
    session->ttl_ns = settings->ttl_ns > 0 ? settings->ttl_ns : SESSION_TTL_DEFAULT_NS;
    session->is_evictable = settings->is_evictable;
    if (!begin_spread(change, session, fault)) {
        session_release(session);
        return false;
    }
    return give_to_store(change, session, fault);
}

/* Settings are no change of what a file keeps. */
static bool change_session(struct change *change, struct fault *fault)
{
    struct session *session = change->session;
    const struct session_settings *settings = &change->settings;
    if (settings->is_evictable && session->elsewhere)
        return fault_set_at(fault, "/evictable", FAULT_OPTION,
                            "evictable is true; session '%s' is spread, and its end would make no "
                            "room here",
                            session->id);
    session_store_set(change->call.service->sessions, session,
                      settings->ttl_ns > 0 ? settings->ttl_ns : session->ttl_ns,
                      settings->has_evictable ? settings->is_evictable : session->is_evictable);
    return true;
}

static bool fork_session(struct change *change, struct fault *fault)
{
    if (!access_check_model(change->key, change->session->model->name, fault)
        || !session_check_here(change->session, "a fork", fault))
        return false;
    struct session *fork = session_fork(change->session);
    if (!fork)
        return fault_no_memory(fault);
    if (change->settings.ttl_ns > 0)
        fork->ttl_ns = change->settings.ttl_ns;
    return give_to_store(change, fork, fault);
}

static bool truncate_session(struct change *change, struct fault *fault)
{
    struct session *session = change->session;
    const int64_t kv_len = change->settings.kv_len;
    int64_t most = 0;
    if (!session_check_here(session, "truncate", fault))
        return false;
    for (int64_t i = 0; i < session->layer_count; i++)
        if (session->layers[i].rows.length > most)
            most = session->layers[i].rows.length;
    if (kv_len > most)
        return fault_set_at(fault, "/kv_len", FAULT_CONFLICT,
                            "kv_len is %" PRId64 "; the longest layer of session '%s' has %" PRId64
                            " keys",
                            kv_len, session->id, most);
    for (int64_t i = 0; i < session->layer_count; i++)
        if (!session_window_check_cut(session, &session->layers[i], kv_len, "/kv_len", fault)
            || !session_state_check_cut(session, &session->layers[i], kv_len, "/kv_len", fault))
            return false;
    if (kv_len < most && !session_store_remove_file(session, fault))
        return false;
    session_truncate(session, kv_len);
    return true;
}

static bool delete_session(struct change *change, struct fault *fault)
{
    return session_store_delete(change->call.service->sessions, change->session, fault);
}

static const struct verb CREATE = { &session_create_fields, create, 201, false, true };
static const struct verb CHANGE = { &session_change_fields, change_session, 200, true, false };
static const struct verb FORK = { &session_fork_fields, fork_session, 201, true, true };
static const struct verb TRUNCATE = { &session_truncate_fields, truncate_session, 200, true,
                                      false };
static const struct verb DELETE = { NULL, delete_session, 204, true, false };

/* --------------------------------------------------------------------- the call -- */

static bool begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    struct change *change = of(call);
    const struct verb *verb = change->verb;
    arena_init(&change->arena, service_request_bytes_max(call->service->config));
    change->arena.memory = call->memory;
    change->key = exchange_key(exchange);
    call->form.arena = &change->arena;
    if (verb->fields && !operation_begin(call, &change->arena, exchange, fault))
        return false;
    if (!verb->is_about_one)
        return session_path_check_new(exchange, fault);
    change->session = session_path_find(exchange, call->service->sessions, fault);
    if (!change->session)
        return false;
    change->ticket.session = change->session;
    change->turn = (struct session_turn){ .scheduler = call->service->scheduler,
                                          .job = &call->job,
                                          .tickets = &change->ticket,
                                          .count = 1 };
    session_turn_take(&change->turn);
    return true;
}

static bool read(struct call *call, struct fault *fault)
{
    struct change *change = of(call);
    const struct verb *verb = change->verb;
    call->item_count = 1;
    call->status = verb->status;
    if (!verb->fields)
        return true;
    const bool is_empty = verb->may_be_empty && call->body.size == 0;
    struct message message = { .count = 0 };
    return (is_empty || call_formats_read(call, &call->form, verb->fields, &message, fault))
           && session_settings_read(&change->settings, verb->fields, &message, &change->arena,
                                    fault);
}

static int64_t tasks(struct call *call, int stage)
{
    if (stage > 0)
        return 0;
    return session_turn_has_come(&of(call)->turn) ? 1 : JOB_WAITS;
}

static void run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct change *change = of(call);
    (void)stage;
    (void)task;
    (void)worker;
    if (!change->session || session_store_check(change->session, &call->fault))
        change->verb->run(change, &call->fault);
}

static void say(const struct call *call, struct writer *writer)
{
    const struct change *change = (const struct change *)call;
    session_say(writer, change->made ? change->made : change->session);
}

static bool write(struct call *call, struct fault *fault)
{
    return call->status == 204 || operation_write(call, fault);
}

static void settle(struct call *call)
{
    session_turn_leave(&of(call)->turn);
}

/* A fork is named, not what it was made from. */
static void record(struct call *call, struct request_record *record)
{
    const struct change *change = of(call);
    const struct session *session = change->made ? change->made : change->session;
    if (session)
        text_copy(record->session, sizeof record->session, session->id);
}

static void drop(struct call *call)
{
    struct change *change = of(call);
    operation_drop(call);
    session_turn_leave(&change->turn);
    session_release(change->session);
    session_release(change->made);
    change->session = change->made = NULL;
    arena_free(&change->arena);
}

static void handle(struct exchange *exchange, const struct verb *verb)
{
    static const struct operation OPERATION = { .formats = operation_formats_json, .say = say };
    static const struct call_kind KIND = { .begin = begin,
                                           .read = read,
                                           .tasks = tasks,
                                           .run = run,
                                           .settle = settle,
                                           .write = write,
                                           .record = record,
                                           .drop = drop };
    struct change *change = calloc(1, sizeof *change);
    if (change) {
        change->call.kind = &KIND;
        change->call.operation = &OPERATION;
        change->verb = verb;
    }
    call_handle(exchange, change ? &change->call : NULL);
}

void sessions_create(struct exchange *exchange)
{
    handle(exchange, &CREATE);
}

void sessions_change(struct exchange *exchange)
{
    handle(exchange, &CHANGE);
}

void sessions_fork(struct exchange *exchange)
{
    handle(exchange, &FORK);
}

void sessions_truncate(struct exchange *exchange)
{
    handle(exchange, &TRUNCATE);
}

void sessions_delete(struct exchange *exchange)
{
    handle(exchange, &DELETE);
}
