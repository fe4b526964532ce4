/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_session_verbs.c - bytes as verbs on sessions: made, forked, cut, deleted, expired, evicted;
 * rows appended, dropped, sent again. Beside the store stands a list of what each session has to
 * hold. Memory is short on purpose; all of it is given back at the end. */
#include "base/clock.h"
#include "models/store/model_store.h"
#include "operations/session/session_store.h"
#include "request.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SLOTS = 6, ROWS_MAX = 8192, BYTES_MAX = 1 << 17, LONG_FROM = 200 };

static const int64_t HOUR = INT64_C(3600) * 1000000000;

/* What the session of a slot, called by its number, has to hold. */
struct slot {
    bool is_there, is_short; /* its ttl is one hour, else ten */
    int64_t length;
    float rows[ROWS_MAX];
};

static struct slot slots[SLOTS];
static struct session_store *store;
static struct model *model;
static float next_number;

struct bytes {
    const uint8_t *data;
    size_t size;
};

static uint8_t take(struct bytes *bytes)
{
    if (bytes->size == 0)
        return 0;
    bytes->size--;
    return *bytes->data++;
}

static const char *id_of(const struct slot *slot)
{
    static char id[8];
    snprintf(id, sizeof id, "s%d", (int)(slot - slots));
    return id;
}

/* The session of a slot, held; NULL where there is none, as there should be none. */
static struct session *find(const struct slot *slot)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = session_store_find(store, id_of(slot), NULL, NULL, &fault);
    require((session != NULL) == slot->is_there);
    require(session || fault.code == FAULT_GONE || fault.code == FAULT_NOT_FOUND);
    return session;
}

static float *row_of(const struct session_rows *rows, int64_t position, bool is_value)
{
    int64_t i = rows->part_count - 1;
    while (rows->parts[i].first > position)
        i--;
    const struct session_part *part = &rows->parts[i];
    float *side = (float *)(void *)(is_value ? part->page->value : part->page->key);
    return side + part->row + position - part->first;
}

static void check(const struct slot *slot)
{
    struct session *session = find(slot);
    if (!session)
        return;
    const struct session_rows *rows = &session->layers[0].rows;
    require(rows->length == slot->length && session_kv_len(session) == slot->length);
    for (int64_t i = 0; i < slot->length; i++)
        require(*row_of(rows, i, false) == slot->rows[i]
                && *row_of(rows, i, true) == -slot->rows[i]);
    session_release(session);
}

/* How many sessions have ended that were there: some are evictable, and what is made may have ended
 * them. */
static int look_again(void)
{
    struct fault fault = { .code = FAULT_NONE };
    int gone = 0;
    for (int i = 0; i < SLOTS; i++) {
        struct session *session = session_store_look(store, id_of(&slots[i]), NULL, NULL, &fault);
        gone += slots[i].is_there && !session;
        slots[i].is_there = session != NULL;
        session_release(session);
    }
    return gone;
}

/* -------------------------------------------------------------------------- verbs -- */

static void make(struct slot *slot, bool is_short, bool is_evictable)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = session_create(model, NULL, 1);
    require(session != NULL);
    session->ttl_ns = is_short ? HOUR : 10 * HOUR;
    session->is_evictable = is_evictable;
    const bool is_made = session_store_add(store, session, id_of(slot), NULL, &fault);
    require(is_made ? !slot->is_there
                    : fault.code == FAULT_FULL || (slot->is_there && fault.code == FAULT_CONFLICT));
    look_again();
    if (!is_made)
        return;
    slot->is_short = is_short;
    slot->length = 0;
}

static void end_one(struct slot *slot)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = find(slot);
    if (!session)
        return;
    require(session_store_delete(store, session, &fault));
    require(!session_store_delete(store, session, &fault) && fault.code == FAULT_GONE);
    session_release(session);
    slot->is_there = false;
}

static void fork_one(const struct slot *from, struct slot *to)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = find(from);
    if (!session)
        return;
    struct session *fork = session_fork(session);
    require(fork != NULL);
    const bool is_made = session_store_add(store, fork, id_of(to), NULL, &fault);
    require(is_made ? !to->is_there
                    : fault.code == FAULT_FULL || (to->is_there && fault.code == FAULT_CONFLICT));
    if (is_made)
        *to = *from;
    session_release(session);
    look_again();
}

static void cut(struct slot *slot, uint8_t share)
{
    struct session *session = find(slot);
    if (!session)
        return;
    slot->length = slot->length * share / 255;
    session_truncate(session, slot->length);
    session_release(session);
}

/* Appends count rows, or sees that there is no room for them; keeps them or not. */
static void append(struct slot *slot, uint8_t how_many, bool keeps)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session *session = find(slot);
    const int64_t count = how_many < LONG_FROM ? how_many % 8 : (how_many - LONG_FROM) * 20;
    if (!session)
        return;
    struct session_rows *rows = &session->layers[0].rows;
    rows->shape.kv_heads = rows->shape.head_dim = rows->shape.v_head_dim = 1;
    rows->shape.dtype = ATTN_F32;
    if (slot->length + count <= ROWS_MAX
        && session_rows_begin(rows, session_store_budget(store), count, &fault)) {
        for (int64_t i = slot->length; i < slot->length + count; i++) {
            const float number = next_number++;
            *row_of(rows, i, false) = number;
            *row_of(rows, i, true) = -number;
            if (keeps)
                slot->rows[i] = number;
        }
        session_rows_end(rows, keeps);
        slot->length += keeps ? count : 0;
    } else {
        require(fault.code == FAULT_NONE || fault.code == FAULT_FULL);
    }
    session_layer_show(&session->layers[0]);
    session_release(session);
}

/* The last rows once more, as a retry does: a fork that is cut, and what it appends is compared. */
static void send_again(const struct slot *slot, uint8_t how_many)
{
    struct fault fault = { .code = FAULT_NONE };
    struct session_rows retry;
    struct session *session = find(slot);
    if (!session)
        return;
    const struct session_rows *rows = &session->layers[0].rows;
    const int64_t count = how_many < slot->length ? how_many : slot->length;
    const int64_t at = slot->length - count;
    require(session_rows_fork(rows, &retry));
    session_rows_truncate(&retry, at);
    if (count > 0 && session_rows_begin(&retry, session_store_budget(store), count, &fault)) {
        for (int64_t i = at; i < slot->length; i++) {
            *row_of(&retry, i, false) = slot->rows[i];
            *row_of(&retry, i, true) = -slot->rows[i];
        }
        require(session_rows_equal(&retry, rows, at, slot->length));
        *row_of(&retry, slot->length - 1, true) += 1;
        require(!session_rows_equal(&retry, rows, at, slot->length));
        session_rows_end(&retry, false);
    }
    session_rows_free(&retry);
    session_release(session);
}

static void pass_time(uint8_t hours)
{
    session_store_sweep(store, clock_now_ns() + hours % 4 * HOUR + HOUR / 2);
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].is_short && hours % 4 > 0)
            slots[i].is_there = false;
}

static void evict(uint8_t share)
{
    struct fault fault = { .code = FAULT_NONE };
    const size_t bytes = (size_t)share * (BYTES_MAX / 255);
    const bool had_room = session_budget_check(session_store_budget(store), bytes, &fault);
    const bool has_room = session_store_evict(store, bytes);
    require(has_room == session_budget_check(session_store_budget(store), bytes, &fault));
    require((look_again() > 0) == (has_room && !had_room));
}

static void run_verb(struct bytes *bytes)
{
    const uint8_t verb = take(bytes), which = take(bytes), more = take(bytes);
    struct slot *slot = &slots[which % SLOTS];
    switch (verb % 9) {
    case 0:
        make(slot, more & 1, more & 2);
        break;
    case 1:
        end_one(slot);
        break;
    case 2:
        fork_one(slot, &slots[more % SLOTS]);
        break;
    case 3:
        cut(slot, more);
        break;
    case 4:
        send_again(slot, more);
        break;
    case 5:
        pass_time(more);
        break;
    case 6:
        evict(more);
        break;
    default:
        append(slot, more, verb % 9 == 7 || which >= 128);
    }
    check(slot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model_store *models;
    const struct model_store_options no_directory = { .directory = NULL };
    struct fault fault = { .code = FAULT_NONE };
    struct bytes bytes = { data, size };
    int failed_count;
    if (!models) {
        require(model_store_create(&models, &no_directory, &failed_count, &fault));
        require(model_store_resolve_version(models, NULL, "sdpa", "", &model, &fault));
    }
    store = session_store_create(BYTES_MAX, SLOTS, NULL);
    require(store != NULL);
    for (int i = 0; i < SLOTS; i++)
        slots[i].is_there = false;
    next_number = 1;
    while (bytes.size > 0)
        run_verb(&bytes);
    for (int i = 0; i < SLOTS; i++)
        check(&slots[i]);
    for (int i = 0; i < SLOTS; i++)
        end_one(&slots[i]);
    require(atomic_load(&session_store_budget(store)->bytes) == 0);
    session_store_free(store);
    return 0;
}
