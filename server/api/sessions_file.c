/* SPDX-License-Identifier: Apache-2.0 */
/* sessions_file.c - a session as a file, out and in.
 *
 * Both are calls. The one that gives a file takes its turn among the calls of its session for as
 * long as a snapshot takes; checksums and sending go on while the next call runs. */
#include "api/sessions.h"

#include "access/access_account.h"
#include "access/access_key.h"
#include "call/model_access.h"
#include "call/operation.h"
#include "operations/session/session_file.h"
#include "operations/session/session_file_read.h"
#include "operations/session/session_path.h"
#include "operations/session/session_turn.h"
#include "operations/sessions.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void record_session(const struct session *session, struct request_record *record)
{
    if (session)
        text_copy(record->session, sizeof record->session, session->id);
}

/* ---------------------------------------------------------------------- a file out -- */

struct giving {
    struct call call;        /* first */
    struct session *session; /* held */
    struct session_turn turn;
    struct session_ticket ticket;
    struct session_file file;
};

static struct giving *giving_of(struct call *call)
{
    return (struct giving *)call;
}

/* To look is no use of a session, but its keys and values are for those who may compute with it. */
static bool give_begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    struct giving *giving = giving_of(call);
    const struct access_key *key = exchange_key(exchange);
    giving->session = session_path_look(exchange, call->service->sessions, fault);
    if (!giving->session || !access_check_model(key, giving->session->model->name, fault)
        || !session_check_here(giving->session, "its file", fault))
        return false;
    giving->ticket.session = giving->session;
    giving->turn = (struct session_turn){ .scheduler = call->service->scheduler,
                                          .job = &call->job,
                                          .tickets = &giving->ticket,
                                          .count = 1 };
    session_turn_take(&giving->turn);
    call->is_for_worker = true;
    return true;
}

static bool give_read(struct call *call, struct fault *fault)
{
    (void)fault;
    call->item_count = 1;
    return true;
}

enum { STAGE_SNAPSHOT, STAGE_SUMS };

static int64_t give_tasks(struct call *call, int stage)
{
    struct giving *giving = giving_of(call);
    if (stage == STAGE_SNAPSHOT)
        return session_turn_has_come(&giving->turn) ? 1 : JOB_WAITS;
    return stage == STAGE_SUMS ? giving->file.tensor_count : 0;
}

static void give_run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct giving *giving = giving_of(call);
    (void)worker;
    if (stage == STAGE_SUMS) {
        session_file_sum(&giving->file, task);
        return;
    }
    if (session_store_check(giving->session, &call->fault))
        session_file_begin(&giving->file, giving->session, call->memory, &call->fault);
    session_turn_leave(&giving->turn);
}

static bool give_write(struct call *call, struct fault *fault)
{
    struct giving *giving = giving_of(call);
    if (!session_file_write_head(&giving->file, &call->text, fault))
        return false;
    call->parts = giving->file.parts;
    call->part_count = giving->file.part_count;
    call->content_type = format_safetensors.content_type;
    return true;
}

static void give_settle(struct call *call)
{
    session_turn_leave(&giving_of(call)->turn);
}

static void give_record(struct call *call, struct request_record *record)
{
    record_session(giving_of(call)->session, record);
}

static void give_drop(struct call *call)
{
    struct giving *giving = giving_of(call);
    session_turn_leave(&giving->turn);
    session_file_free(&giving->file);
    session_release(giving->session);
    giving->session = NULL;
}

void sessions_get_file(struct exchange *exchange)
{
    static const struct call_kind KIND = { .begin = give_begin,
                                           .read = give_read,
                                           .tasks = give_tasks,
                                           .run = give_run,
                                           .settle = give_settle,
                                           .write = give_write,
                                           .record = give_record,
                                           .drop = give_drop };
    struct giving *giving = calloc(1, sizeof *giving);
    if (giving)
        giving->call.kind = &KIND;
    call_handle(exchange, giving ? &giving->call : NULL);
}

/* ----------------------------------------------------------------------- a file in -- */

struct taking {
    struct call call;              /* first */
    const struct access_key *key;  /* the exchange holds it */
    struct access_key *owner;      /* whom the session is for, held; NULL: key */
    char id[SESSION_NAME_MAX + 2]; /* cut, but one that is too long stays too long */
    char type[64];                 /* Content-Type, cut */
    struct session_file_read file;
    struct fault *faults; /* [tensor_count], of the file */
    struct session *made; /* held, for the answer */
};

static struct taking *taking_of(struct call *call)
{
    return (struct taking *)call;
}

static bool take_begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    struct taking *taking = taking_of(call);
    taking->key = exchange_key(exchange);
    text_copy(taking->id, sizeof taking->id, exchange_param(exchange, 0));
    call->is_for_worker = true;
    text_copy(taking->type, sizeof taking->type, exchange_body_type(exchange));
    return session_path_read_owner(exchange, call->service->keys, &taking->owner, fault)
           && (strchr(taking->id, ':') || session_id_check(taking->id, fault));
}

static bool take_read(struct call *call, struct fault *fault)
{
    struct taking *taking = taking_of(call);
    call->item_count = 1;
    call->status = 201;
    if (strcasecmp(taking->type, format_safetensors.content_type) != 0)
        return fault_set(fault, FAULT_CONTENT_TYPE,
                         "Content-Type is '%s'; expected the file of a session, %s", taking->type,
                         format_safetensors.content_type);
    if (!session_file_read(&taking->file, call->body.data ? call->body.data : "", call->body.size,
                           call->memory, fault))
        return false;
    call->form.arena = &taking->file.arena;
    if (!session_file_check_id(&taking->file, taking->id, fault))
        return false;
    taking->faults = arena_calloc(&taking->file.arena, (size_t)taking->file.tensor_count,
                                  sizeof *taking->faults);
    return taking->faults || fault_no_memory(fault);
}

static int64_t take_tasks(struct call *call, int stage)
{
    return stage == 0 ? taking_of(call)->file.tensor_count : stage == 1 ? 1 : 0;
}

static bool make(struct taking *taking, struct fault *fault)
{
    struct service *service = taking->call.service;
    const struct session_file_read *file = &taking->file;
    struct model *model;
    for (int64_t i = 0; i < file->tensor_count; i++)
        if (taking->faults[i].code != FAULT_NONE) {
            *fault = taking->faults[i];
            return false;
        }
    const struct access_key *owner = taking->owner ? taking->owner : taking->key;
    if (!access_check_model(taking->key, file->model_name, fault))
        return false;
    taking->made =
        session_store_made_of(service->sessions, taking->id, owner ? owner->account->name : "",
                              file->digest ? file->digest : "");
    if (taking->made) {
        taking->call.status = 200;
        return true;
    }
    if (!session_store_takes(service->sessions, taking->id, owner, fault)
        || !model_access_resolve(service->store, taking->key, file->model_name, "", &model, fault))
        return false;
    struct session *session =
        session_file_make(file, model, service->sessions, owner ? owner->account : NULL, fault);
    model_release(model);
    if (!session)
        return false;
    taking->made = session_hold(session);
    return session_store_add(service->sessions, session, taking->id, owner, fault);
}

static void take_run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct taking *taking = taking_of(call);
    (void)worker;
    if (stage == 0)
        session_file_check_sum(&taking->file, task, &taking->faults[task]);
    else
        make(taking, &call->fault);
}

static void take_say(const struct call *call, struct writer *writer)
{
    session_say(writer, ((const struct taking *)call)->made);
}

static void take_record(struct call *call, struct request_record *record)
{
    record_session(taking_of(call)->made, record);
}

static void take_drop(struct call *call)
{
    struct taking *taking = taking_of(call);
    session_file_read_free(&taking->file);
    session_release(taking->made);
    access_key_release(taking->owner);
    taking->made = NULL;
    taking->owner = NULL;
}

void sessions_put(struct exchange *exchange)
{
    static const struct operation OPERATION = { .say = take_say };
    static const struct call_kind KIND = { .begin = take_begin,
                                           .read = take_read,
                                           .tasks = take_tasks,
                                           .run = take_run,
                                           .write = operation_write,
                                           .record = take_record,
                                           .drop = take_drop };
    struct taking *taking = calloc(1, sizeof *taking);
    if (taking) {
        taking->call.kind = &KIND;
        taking->call.operation = &OPERATION;
    }
    call_handle(exchange, taking ? &taking->call : NULL);
}
