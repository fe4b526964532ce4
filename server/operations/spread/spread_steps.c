/* SPDX-License-Identifier: Apache-2.0 */
/* spread_steps.c - see spread_steps.h. */
#include "operations/spread/spread_steps.h"

#include "base/clock.h"
#include "operations/session/session_file_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct spread_peer *peer_of(const struct spread_call *own, int peer)
{
    return &spread_lines_peers(own->wait.lines)->peers[peer];
}

static int peer_count(const struct spread_call *own)
{
    return (int)spread_lines_peers(own->wait.lines)->count;
}

/* ------------------------------------------------------------------ requests -- */

static struct spread_request *new_request(struct call *call, struct spread_call *own, int peer,
                                          const char *method, const char *type, struct fault *fault)
{
    struct spread_request *request = spread_request_create(peer, method, own->deadline_ns);
    (void)call;
    if (!request) {
        fault_no_memory(fault);
        return NULL;
    }
    const int64_t left_ns = own->deadline_ns - clock_now_ns();
    snprintf(request->headers, sizeof request->headers,
             "%sContent-Type: %s\r\nAccept: %s\r\nX-Timeout-Ms: %" PRId64 "\r\n", own->headers,
             type, type, left_ns > 1000000 ? left_ns / 1000000 : 1);
    return request;
}

/* A request whose body is JSON, or that has none. */
static struct spread_request *json_request(struct call *call, struct spread_call *own, int peer,
                                           const char *method, const char *body,
                                           struct fault *fault)
{
    struct spread_request *request =
        new_request(call, own, peer, method, "application/json", fault);
    if (!request || !body)
        return request;
    request->body = strdup(body);
    request->body_size = strlen(body);
    if (request->body)
        return request;
    spread_request_free(request);
    fault_no_memory(fault);
    return NULL;
}

static void send(struct spread_call *own, struct spread_request *request)
{
    spread_lines_send(own->wait.lines, request, &own->wait);
}

void spread_steps_leave(struct call *call, struct spread_call *own)
{
    spread_wait_leave(&own->wait);
    if (own->bytes > 0)
        memory_return(call->memory, own->bytes);
    own->bytes = 0;
}

/* ---------------------------------------------------------------- what is lost -- */

/* "positions 0 to 99 of session 'x'", of a range, or how much of the session lies at the peer. */
static void say_lost(const struct spread_call *own, int peer, int64_t range, char *text,
                     size_t size)
{
    const struct spread *spread = spread_of(own->session);
    int64_t rows = 0;
    for (int64_t i = 0; i < spread->count; i++)
        if (spread->ranges[i].peer == peer)
            rows += spread->ranges[i].count;
    if (range >= 0 && spread->ranges[range].count > 0)
        snprintf(text, size, "positions %" PRId64 " to %" PRId64 " of session '%.64s' lie there",
                 spread->ranges[range].first,
                 spread->ranges[range].first + spread->ranges[range].count - 1, own->session->id);
    else
        snprintf(text, size,
                 "%" PRId64 " of the %" PRId64 " positions of session '%.64s' lie there", rows,
                 spread->length, own->session->id);
}

static bool not_reached(const struct spread_call *own, const struct spread_request *request,
                        struct fault *fault)
{
    char lost[192];
    const struct spread_peer *peer = peer_of(own, request->peer);
    say_lost(own, request->peer, -1, lost, sizeof lost);
    return fault_set(fault, FAULT_PEER, "peer '%s' (%.80s) does not answer: %.160s; %s", peer->name,
                     peer->address.url, request->reason, lost);
}

static enum fault_code code_named(const char *name)
{
    for (int code = FAULT_NONE + 1; code < FAULT_CODE_COUNT; code++)
        if (strcmp(fault_code_name(code), name) == 0)
            return code;
    return FAULT_NONE;
}

static bool is_full(const struct spread_refusal *refusal)
{
    return strcmp(refusal->code, "memory") == 0 || strcmp(refusal->code, "quota") == 0
           || strcmp(refusal->code, "too_large") == 0;
}

/* A fault of the request itself is the client's, in its words; all else is the peer's. */
static bool refused(const struct spread_call *own, int peer, const struct spread_refusal *refusal,
                    struct fault *fault)
{
    const char *name = peer_of(own, peer)->name;
    const enum fault_code code = code_named(refusal->code);
    const int64_t item = refusal->item;
    const int64_t range = item >= 0 ? own->batch.items[item].range : -1;
    const char *pointer = strrchr(refusal->pointer, '/');
    char lost[192];
    say_lost(own, peer, range, lost, sizeof lost);
    if (code == FAULT_CONFLICT && own->base < spread_of(own->session)->length && own->rows > 0)
        return fault_set_at(fault, "/at", FAULT_CONFLICT,
                            "other keys and values are at %" PRId64 " of layer 0 of session '%s', "
                            "which has %" PRId64 " keys",
                            own->at, own->session->id, spread_of(own->session)->length);
    if (code == FAULT_OVERLOADED)
        return fault_set(fault, code, "peer '%s': %.400s", name, refusal->message);
    if (code != FAULT_NONE && fault_http_status(code) == 400 && own->step == SPREAD_ASK)
        return fault_set_at(fault, pointer ? pointer : "", code, "%.500s", refusal->message);
    if (code == FAULT_KEY || code == FAULT_SCOPE || code == FAULT_FORBIDDEN)
        return fault_set(fault, FAULT_PEER,
                         "peer '%s' refuses the key that --peers has for it: %.300s; %s", name,
                         refusal->message, lost);
    return fault_set(fault, FAULT_PEER, "peer '%s' says %s: %.300s; %s", name,
                     refusal->code[0] ? refusal->code : "something that is not understood",
                     refusal->message, lost);
}

/* An answer that is none of 2xx. */
static bool refused_whole(const struct spread_call *own, const struct spread_request *request,
                          struct fault *fault)
{
    struct spread_refusal refusal;
    spread_message_read_refusal(request, &refusal);
    return refused(own, request->peer, &refusal, fault);
}

/* Of those that are waited for: the first that ended without an answer, else NULL. */
static const struct spread_request *first_failed(struct spread_call *own)
{
    for (int i = 0; i < own->wait.count; i++)
        if (spread_wait_has(&own->wait, i) && own->wait.requests[i]->end != REMOTE_ANSWERED)
            return own->wait.requests[i];
    return NULL;
}

/* ------------------------------------------------------------------- mending -- */

static bool is_new(const struct spread *spread, const struct spread_piece *piece)
{
    const struct spread_range *range = &spread->ranges[piece->range];
    return piece->first >= range->first + range->count;
}

/* Rows of a call that failed are behind those that count. At most as many as a wait has. */
static bool send_mend(struct call *call, struct spread_call *own, struct fault *fault)
{
    const struct spread *spread = spread_of(own->session);
    for (int64_t i = 0; i < own->piece_count && own->wait.count < SPREAD_PEERS_MAX; i++) {
        const struct spread_range *range = &spread->ranges[own->pieces[i].range];
        char body[64];
        if (!range->is_unsure || !is_new(spread, &own->pieces[i]))
            continue;
        snprintf(body, sizeof body, "{\"kv_len\":%" PRId64 "}", range->count);
        struct spread_request *request = json_request(call, own, range->peer, "POST", body, fault);
        if (!request)
            return false;
        own->mended[own->wait.count] = own->pieces[i].range;
        snprintf(request->target, sizeof request->target, "/v1/sessions/%s/truncate", range->id);
        send(own, request);
    }
    return true;
}

static bool take_mend(struct spread_call *own, struct fault *fault)
{
    struct spread *spread = spread_of(own->session);
    for (int i = 0; i < own->wait.count; i++) {
        const struct spread_request *request = own->wait.requests[i];
        if (request->status != 200)
            return refused_whole(own, request, fault);
        spread_set_unsure(spread, own->mended[i], false);
    }
    return true;
}

/* ------------------------------------------------------------------- placing -- */

/* A peer that is silent takes no new range, and does not keep the others from it for long. */
static bool send_free(struct call *call, struct spread_call *own, struct fault *fault)
{
    const int64_t until_ns = clock_now_ns() + INT64_C(1000000000);
    own->wait.for_all = true;
    for (int i = 0; i < peer_count(own); i++) {
        struct spread_request *request = json_request(call, own, i, "GET", NULL, fault);
        if (!request)
            return false;
        if (until_ns < request->deadline_ns)
            request->deadline_ns = until_ns;
        snprintf(request->target, sizeof request->target, "/v1/sessions?limit=1");
        send(own, request);
    }
    return true;
}

static void exclude(struct spread_call *own, int peer, const char *reason)
{
    own->free_bytes[peer] = -1;
    snprintf(own->reasons[peer], sizeof own->reasons[peer], "%.190s", reason);
}

static bool take_free(struct spread_call *own, struct fault *fault)
{
    own->knows_free = true;
    own->wait.for_all = false;
    for (int i = 0; i < own->wait.count; i++) {
        const struct spread_request *request = own->wait.requests[i];
        if (own->free_bytes[request->peer] < 0)
            continue;
        if (request->end != REMOTE_ANSWERED) {
            exclude(own, request->peer, request->reason);
        } else if (request->status != 200) {
            if (request->status == 401 || request->status == 403)
                return refused_whole(own, request, fault);
            exclude(own, request->peer, "it does not say how much memory it has");
        } else {
            const int64_t bytes = spread_message_number(request, "bytes_free");
            own->free_bytes[request->peer] = bytes > 0 ? bytes : 0;
        }
    }
    return true;
}

static size_t row_bytes(const struct spread_call *own)
{
    return spread_row_bytes(&own->asked.key, &own->asked.value, own->session->dtype);
}

static bool no_room(const struct spread_call *own, struct fault *fault)
{
    char peers[500];
    int used = 0;
    peers[0] = '\0';
    for (int i = 0; i < peer_count(own) && used < (int)sizeof peers; i++)
        used += own->free_bytes[i] < 0
                    ? snprintf(peers + used, sizeof peers - (size_t)used, "%s%s: %s",
                               i > 0 ? "; " : "", peer_of(own, i)->name, own->reasons[i])
                    : snprintf(peers + used, sizeof peers - (size_t)used,
                               "%s%s: %" PRId64 " bytes free", i > 0 ? "; " : "",
                               peer_of(own, i)->name, own->free_bytes[i]);
    return fault_set(fault, FAULT_PEER,
                     "no peer has room for %" PRId64 " more rows of %zu bytes: "
                     "%s",
                     own->left, row_bytes(own), peers);
}

/* The peer with the most memory left that these rows fit in; -1: none. */
static int choose_peer(const struct spread_call *own, int64_t rows)
{
    int best = -1;
    for (int i = 0; i < peer_count(own); i++)
        if (own->free_bytes[i] >= 0 && (best < 0 || own->free_bytes[i] > own->free_bytes[best]))
            best = i;
    return best >= 0 && (uint64_t)own->free_bytes[best] >= (uint64_t)rows * row_bytes(own) ? best
                                                                                           : -1;
}

static bool send_new(struct call *call, struct spread_call *own, const struct spread_new *new,
                     struct fault *fault)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"model\":\"%s\",\"dtype\":\"%s\",\"id\":\"%s\",\"ttl\":\"%" PRId64 "ms\"}",
             own->session->model->name, session_file_dtype_of(own->session->dtype)->name, new->id,
             spread_home_ttl_ns(spread_of(own->session)->home) / 1000000);
    struct spread_request *request = json_request(call, own, new->peer, "POST", body, fault);
    if (!request)
        return false;
    snprintf(request->target, sizeof request->target, "/v1/sessions");
    send(own, request);
    return true;
}

static bool send_make(struct call *call, struct spread_call *own, struct fault *fault)
{
    const struct spread *spread = spread_of(own->session);
    const struct spread_range *last =
        spread->count > 0 ? &spread->ranges[spread->count - 1] : NULL; /* there may be none yet */
    int64_t end = last ? last->first + last->rows_max : 0;
    int64_t left = own->left;
    while (left > 0 && own->wait.count < SPREAD_PEERS_MAX) {
        struct spread_new *new = &own->made[own->wait.count];
        new->rows_max = spread_next_rows(spread->rows_min, end, peer_count(own));
        const int64_t rows = left < new->rows_max ? left : new->rows_max;
        new->peer = choose_peer(own, rows);
        if (new->peer < 0)
            return no_room(own, fault);
        own->free_bytes[new->peer] -= rows * (int64_t)row_bytes(own);
        spread_lines_id(own->wait.lines, new->id, sizeof new->id);
        if (!send_new(call, own, new, fault))
            return false;
        end += new->rows_max;
        left -= rows;
    }
    return true;
}

/* 409: it was made, and the answer of the first time was lost. */
static bool take_make(struct spread_call *own, struct fault *fault)
{
    bool good = true;
    for (int i = 0; i < own->wait.count; i++) {
        const struct spread_request *request = own->wait.requests[i];
        struct spread_refusal refusal;
        if (!spread_wait_has(&own->wait, i) || request->end != REMOTE_ANSWERED)
            continue;
        if (request->status == 201 || request->status == 409) {
            good = spread_add(spread_of(own->session), own->made[i].peer, own->made[i].id,
                              own->made[i].rows_max, good ? fault : &(struct fault){ 0 })
                   && good;
            continue;
        }
        spread_message_read_refusal(request, &refusal);
        if (is_full(&refusal))
            exclude(own, request->peer, refusal.message);
        else if (good)
            good = refused(own, request->peer, &refusal, fault);
    }
    return good;
}

/* -------------------------------------------------------------------- asking -- */

/* What a row may see, by positions. */
static struct spread_sight sight_of(const struct infer_item *asked)
{
    const struct array *query = &asked->query;
    struct spread_sight sight = {
        .first_row = asked->past_len,
        .row_count = !query->data       ? 0
                     : query->rank >= 2 ? query->shape[query->rank - 2]
                                        : 1,
        .window_left = asked->has_window_left ? asked->window_left : -1,
        .window_right = asked->has_window_right ? asked->window_right : -1,
    };
    if (asked->has_causal && asked->causal)
        sight.window_right = 0;
    return sight;
}

/* sight NULL: the rows see none of the keys, but the peer knows the columns of the zeros that they
 * get. */
static void add_item(struct spread_call *own, const struct spread_sight *sight, int64_t index)
{
    const struct spread_range *range = &spread_of(own->session)->ranges[index];
    struct spread_item *item = &own->batch.items[own->batch.count];
    *item = (struct spread_item){ .range = index, .peer = range->peer };
    for (int64_t i = 0; i < own->piece_count; i++)
        if (own->pieces[i].range == index) {
            item->row = own->pieces[i].first - own->base;
            item->rows = own->pieces[i].count;
        }
    const int64_t before = own->base - range->first, there = own->total - range->first;
    const int64_t seen = there < range->rows_max ? there : range->rows_max;
    item->at = item->rows > 0 ? item->row + before : seen;
    item->is_asked = seen > 0 && (!sight || spread_sees(sight, range->first, seen));
    if (item->is_asked || item->rows > 0)
        own->batch.count++;
}

/* Bytes count for the request until its answers are merged. */
static bool count_bytes(struct call *call, struct spread_call *own, size_t bytes,
                        struct fault *fault)
{
    if (!memory_reserve(call->memory, bytes))
        return fault_no_memory(fault);
    own->bytes += bytes;
    return true;
}

/* Columns of all values, as far as they are known: those that come, else no more than these. */
static int64_t value_columns(const struct infer_item *asked)
{
    enum { COLUMNS_MOST = 4096 };
    const struct array *value = &asked->value;
    return value->data && value->rank >= 2 ? value->shape[value->rank - 1] : COLUMNS_MOST;
}

static bool send_batch(struct call *call, struct spread_call *own, int peer, struct fault *fault)
{
    struct text text;
    struct spread_request *request =
        new_request(call, own, peer, "POST", "application/x-safetensors", fault);
    if (!request)
        return false;
    text_init(&text, SIZE_MAX);
    request->answer_bytes_max =
        spread_message_answer_bytes(&own->batch, peer, value_columns(&own->asked));
    if (!spread_message_write(&own->batch, peer, &text, fault)
        || !count_bytes(call, own, text.capacity, fault)) {
        text_free(&text);
        spread_request_free(request);
        return false;
    }
    request->body = text.data;
    request->body_size = text.used;
    snprintf(request->target, sizeof request->target, "/v1/sessions/attention");
    send(own, request);
    return true;
}

static bool send_asked(struct call *call, struct spread_call *own, struct fault *fault)
{
    const struct spread *spread = spread_of(own->session);
    const struct spread_sight sight = sight_of(&own->asked);
    own->batch.items = arena_calloc(&call->arena, (size_t)spread->count, sizeof *own->batch.items);
    own->batch.count = 0;
    if (!own->batch.items)
        return fault_no_memory(fault);
    bool is_asked = !own->has_query || own->total == 0;
    for (int64_t i = 0; i < spread->count; i++)
        add_item(own, &sight, i);
    for (int64_t i = 0; i < own->batch.count; i++)
        is_asked = is_asked || own->batch.items[i].is_asked;
    if (!is_asked) {
        own->batch.count = 0;
        for (int64_t i = 0; i < spread->count; i++)
            add_item(own, i == 0 ? NULL : &sight, i);
    }
    own->was_asked = true;
    for (int peer = 0; peer < peer_count(own); peer++) {
        bool has = false;
        for (int64_t i = 0; i < own->batch.count; i++)
            has = has || own->batch.items[i].peer == peer;
        if (has && !send_batch(call, own, peer, fault))
            return false;
    }
    return true;
}

/* Rows that a full peer was to take go elsewhere. What it has of them is cut off before it is used
 * again. */
static bool go_elsewhere(struct spread_call *own, int peer, const struct spread_refusal *refusal)
{
    struct spread *spread = spread_of(own->session);
    bool found = false;
    if (!is_full(refusal) || (refusal->item >= 0 && own->batch.items[refusal->item].rows == 0))
        return false;
    for (int64_t i = 0; i < own->piece_count; i++) {
        spread_set_unsure(spread, own->pieces[i].range, true);
        if (spread->ranges[own->pieces[i].range].peer != peer || !is_new(spread, &own->pieces[i]))
            continue;
        spread_end_range(spread, own->pieces[i].range);
        found = true;
    }
    if (found)
        exclude(own, peer, refusal->message);
    return found;
}

static bool take_asked(struct spread_call *own, bool *again, struct fault *fault)
{
    for (int i = 0; i < own->wait.count; i++) {
        const struct spread_request *request = own->wait.requests[i];
        struct spread_refusal refusal = { .item = -1 };
        *fault = (struct fault){ .code = FAULT_NONE };
        if (request->status == 200 && spread_message_read(&own->batch, request, &refusal, fault))
            continue;
        if (request->status != 200)
            spread_message_read_refusal(request, &refusal);
        if (fault->code == FAULT_PEER)
            return fault_set(fault, FAULT_PEER, "peer '%s': its answer is not understood",
                             peer_of(own, request->peer)->name);
        if (fault->code != FAULT_NONE)
            return false;
        *again = go_elsewhere(own, request->peer, &refusal);
        return *again || refused(own, request->peer, &refusal, fault);
    }
    return true;
}

/* --------------------------------------------------------------------- steps -- */

static bool lay(struct call *call, struct spread_call *own, struct fault *fault)
{
    const struct spread *spread = spread_of(own->session);
    const int64_t most = spread->count > 0 ? spread->count : 1;
    own->pieces = arena_calloc(&call->arena, (size_t)most, sizeof *own->pieces);
    if (!own->pieces)
        return fault_no_memory(fault);
    own->piece_count = spread_lay(spread, own->base, own->rows, own->pieces, most, &own->left);
    return true;
}

static bool needs_mending(const struct spread_call *own)
{
    const struct spread *spread = spread_of(own->session);
    for (int64_t i = 0; i < own->piece_count; i++)
        if (spread->ranges[own->pieces[i].range].is_unsure && is_new(spread, &own->pieces[i]))
            return true;
    return false;
}

bool spread_steps_send(struct call *call, struct spread_call *own, struct fault *fault)
{
    if (!lay(call, own, fault))
        return false;
    if (own->left > 0 && !own->knows_free) {
        own->step = SPREAD_FREE;
        return send_free(call, own, fault);
    }
    if (own->left > 0) {
        own->step = SPREAD_MAKE;
        return send_make(call, own, fault);
    }
    if (needs_mending(own)) {
        own->step = SPREAD_MEND;
        return send_mend(call, own, fault);
    }
    own->step = SPREAD_ASK;
    return send_asked(call, own, fault);
}

bool spread_steps_take(struct call *call, struct spread_call *own, bool *again, struct fault *fault)
{
    const struct spread_request *failed = own->step == SPREAD_FREE ? NULL : first_failed(own);
    bool good = own->step == SPREAD_MEND   ? failed || take_mend(own, fault)
                : own->step == SPREAD_FREE ? take_free(own, fault)
                : own->step == SPREAD_MAKE ? take_make(own, fault)
                                           : failed || take_asked(own, again, fault);
    if (good && failed)
        good = not_reached(own, failed, fault);
    spread_steps_leave(call, own);
    return good;
}

/* --------------------------------------------------------------------- merge -- */

/* What rows that see no key have: a context of zeros. */
static bool zero_part(struct spread_call *own, struct infer_part *part, struct fault *fault)
{
    const struct array *query = &own->asked.query;
    const int64_t heads = query->rank == 3         ? query->shape[0]
                          : own->asked.q_heads > 0 ? own->asked.q_heads
                                                   : 1;
    const int64_t rows = !own->has_query ? 0 : query->rank >= 2 ? query->shape[query->rank - 2] : 1;
    const int64_t width = query->rank >= 1 && own->has_query ? query->shape[query->rank - 1] : 0;
    const int64_t columns = query->rank == 3 ? width : width / heads;
    float *context = arena_calloc(own->batch.arena, (size_t)(heads * rows * columns) + 1, 4);
    float *lse = arena_calloc(own->batch.arena, (size_t)(heads * rows) + 1, 4);
    if (!context || !lse)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < heads * rows; i++)
        lse[i] = -INFINITY;
    const int rank = rows > 0 && columns > 0 ? 3 : 2;
    part->context = (struct array){ .data = context,
                                    .dtype = ATTN_F32,
                                    .rank = rank,
                                    .shape = { heads, rank == 3 ? rows : 0, columns } };
    part->lse = (struct array){
        .data = lse, .dtype = ATTN_F32, .rank = 2, .shape = { heads, rank == 3 ? rows : 0 }
    };
    return true;
}

bool spread_steps_merge(struct call *call, struct spread_call *own, struct fault *fault)
{
    struct infer_item *item = &infer_request_of(call)->items[0];
    item->parts = arena_calloc(&call->arena, (size_t)own->batch.count + 1, sizeof *item->parts);
    if (!item->parts)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < own->batch.count; i++)
        if (own->batch.items[i].is_asked)
            item->parts[item->part_count++] = own->batch.items[i].part;
    if (item->part_count == 0) {
        if (!zero_part(own, &item->parts[0], fault))
            return false;
        item->part_count = 1;
    }
    item->query.data = item->key.data = item->value.data = NULL;
    item->kv_len.values = NULL;
    return true;
}
