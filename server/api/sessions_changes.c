/* sessions_changes.c - see sessions.h: a session is made, forked, cut and ended.
 *
 * Each is a call of one task. What is about a session that is there takes its turn among the calls
 * of the session, by a ticket that it takes when its request has come. */
#include "api/sessions.h"

#include "access/access_check.h"
#include "infer/call.h"
#include "service/model_access.h"
#include "session/session_path.h"
#include "session/session_saved.h"
#include "session/session_turn.h"
#include "session/session_window.h"
#include "wire/session_body.h"
#include "wire/session_text.h"

#include <inttypes.h>
#include <stdlib.h>

struct change;

struct verb {
    /* NULL: no body is read. */
    bool (*read)(struct session_body *body, const struct json_document *document,
                 struct arena *arena, struct fault *fault);
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
    struct session_body body;
    struct session *session; /* of the path, held */
    struct session_turn turn;
    struct session_ticket ticket;
    struct session *made; /* held, for the answer */
};

static struct change *of(struct call *call)
{
    return (struct change *)call;
}

/* ------------------------------------------------------------------- the verbs -- */

/* Where the caller takes a reference, the store has one of its own. */
static bool give_to_store(struct change *change, struct session *session, struct fault *fault)
{
    struct session_store *store = change->call.service->sessions;
    change->made = session_hold(session);
    return session_store_add(store, session, change->body.id, change->key, fault);
}

static bool check_layers(const struct session_body *body, const struct model *model,
                         struct fault *fault)
{
    for (int64_t i = 0; i < body->layer_count; i++)
        if (body->layers[i] >= model->layer_count)
            return fault_set_at(fault, "/layers", FAULT_NOT_FOUND,
                                "layers has %" PRId64 "; model '%s' has %" PRId64
                                ", counted from 0",
                                body->layers[i], model->name, model->layer_count);
    return true;
}

static bool all_layers(struct change *change, const struct model *model, struct fault *fault)
{
    struct session_body *body = &change->body;
    if (body->layers)
        return check_layers(body, model, fault);
    body->layer_count = model->layer_count;
    body->layers = arena_calloc(&change->arena, (size_t)model->layer_count, sizeof *body->layers);
    for (int64_t i = 0; body->layers && i < body->layer_count; i++)
        body->layers[i] = i;
    return body->layers || fault_no_memory(fault);
}

static bool create(struct change *change, struct fault *fault)
{
    struct session_body *body = &change->body;
    struct model *model;
    if (!model_access_resolve(change->call.service->store, change->key, body->model_name, "",
                              &model, fault)) {
        if (!fault->pointer[0])
            fault_pointer_append(fault->pointer, 0, "model");
        return false;
    }
    struct session *session = all_layers(change, model, fault)
                                  ? session_create(model, body->layers, body->layer_count)
                                  : NULL;
    model_release(model);
    if (!session)
        return fault->code != FAULT_NONE ? false : fault_no_memory(fault);
    session->dtype = body->dtype;
    session->kv_len_max = body->kv_len_max;
    session->window = body->window;
    session->first_keys = body->first_keys;
    session->ttl_ns = body->ttl_ns > 0 ? body->ttl_ns : SESSION_TTL_DEFAULT_NS;
    session->is_evictable = body->is_evictable;
    return give_to_store(change, session, fault);
}

/* Settings are no change of what a file keeps. */
static bool change_session(struct change *change, struct fault *fault)
{
    struct session *session = change->session;
    (void)fault;
    if (change->body.ttl_ns > 0)
        atomic_store(&session->ttl_ns, change->body.ttl_ns);
    if (change->body.has_evictable)
        atomic_store(&session->is_evictable, change->body.is_evictable);
    return true;
}

static bool fork_session(struct change *change, struct fault *fault)
{
    if (!access_check_model(change->key, change->session->model->name, fault))
        return false;
    struct session *fork = session_fork(change->session);
    if (!fork)
        return fault_no_memory(fault);
    if (change->body.ttl_ns > 0)
        fork->ttl_ns = change->body.ttl_ns;
    return give_to_store(change, fork, fault);
}

static bool truncate_session(struct change *change, struct fault *fault)
{
    struct session *session = change->session;
    const int64_t kv_len = change->body.kv_len;
    int64_t most = 0;
    for (int64_t i = 0; i < session->layer_count; i++)
        if (session->layers[i].rows.length > most)
            most = session->layers[i].rows.length;
    if (kv_len > most)
        return fault_set_at(fault, "/kv_len", FAULT_CONFLICT,
                            "kv_len is %" PRId64 "; the longest layer of session '%s' has %" PRId64
                            " keys",
                            kv_len, session->id, most);
    for (int64_t i = 0; i < session->layer_count; i++)
        if (!session_window_check_cut(session, &session->layers[i], kv_len, "/kv_len", fault))
            return false;
    if (kv_len < most && !session_saved_remove(session, fault))
        return false;
    session_truncate(session, kv_len);
    return true;
}

static bool delete_session(struct change *change, struct fault *fault)
{
    return session_store_delete(change->call.service->sessions, change->session, fault);
}

static const struct verb CREATE = { session_body_read_create, create, 201, false, true };
static const struct verb CHANGE = { session_body_read_change, change_session, 200, true, false };
static const struct verb FORK = { session_body_read_fork, fork_session, 201, true, true };
static const struct verb TRUNCATE = { session_body_read_truncate, truncate_session, 200, true,
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
    if (verb->read && !service_takes_json(exchange, "application/json", fault))
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
    if (!verb->read)
        return true;
    const bool is_empty = verb->may_be_empty && call->body.size == 0;
    return (is_empty || call_read_json(call, call->body.data, call->body.size, false, fault))
           && verb->read(&change->body, &call->document, &change->arena, fault);
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

static bool write(struct call *call, struct fault *fault)
{
    const struct change *change = of(call);
    (void)fault;
    if (change->verb->status == 204)
        return true;
    session_text_write(change->made ? change->made : change->session, &call->text);
    text_raw(&call->text, "\n");
    return true;
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
    session_turn_leave(&change->turn);
    session_release(change->session);
    session_release(change->made);
    change->session = change->made = NULL;
    arena_free(&change->arena);
}

static void handle(struct exchange *exchange, const struct verb *verb)
{
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
