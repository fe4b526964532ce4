/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - a session, its memory beside its pages, and the window that its rows see. */
#include "operations/session/session.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool session_is_id(const char *id)
{
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t length = strlen(id);
    return length >= 1 && length <= SESSION_ID_MAX && strspn(id, LETTERS) == length
           && strcmp(id, ".") != 0 && strcmp(id, "..") != 0 && strcmp(id, "attention") != 0;
}

bool session_id_check(const char *id, struct fault *fault)
{
    return session_is_id(id)
           || fault_set_at(fault, "/id", FAULT_OPTION,
                           "id is '%.70s'; expected 1 to %d of A-Z a-z 0-9 . _ -, and not '.', "
                           "'..' or 'attention'",
                           id, SESSION_ID_MAX);
}

struct session *session_create(struct model *model, const int64_t *layers, int64_t layer_count)
{
    struct session *session = calloc(1, sizeof *session);
    struct session_layer *own = calloc((size_t)layer_count, sizeof *own);
    if (!session || !own) {
        free(session);
        free(own);
        return NULL;
    }
    for (int64_t i = 0; i < layer_count; i++)
        own[i].number = layers ? layers[i] : i;
    session->layers = own;
    session->layer_count = layer_count;
    for (int64_t i = 0; i < layer_count; i++) {
        const struct model_layer *of = &model->layers[own[i].number];
        own[i].rows.is_state = of->lacks_attention;
        own[i].shares = of->shares_keys && session_layer_of(session, of->keys_of);
        own[i].keeps_nothing =
            own[i].shares
            || (of->lacks_attention && model_state_numbers(model, own[i].number) == 0);
    }
    session->holders = 1;
    session->model = model_retain(model);
    session->kv_len_max = INT64_MAX;
    session->created_ns = clock_now_ns();
    session->used_ns = session->created_ns;
    return session;
}

struct session *session_hold(struct session *session)
{
    atomic_fetch_add(&session->holders, 1);
    return session;
}

void session_release(struct session *session)
{
    if (!session || atomic_fetch_sub(&session->holders, 1) > 1)
        return;
    for (int64_t i = 0; i < session->layer_count; i++)
        session_rows_free(&session->layers[i].rows);
    free(session->layers);
    model_release(session->model);
    if (session->elsewhere)
        session->elsewhere->free(session->elsewhere);
    if (session->budget)
        session_memory_give_back(session->budget, session->account, session->own_bytes);
    access_account_release(session->account);
    free(atomic_load(&session->saved));
    if (atomic_load(&session->end) != SESSION_MOVED)
        free(session->digest);
    free(session);
}

bool session_check_here(const struct session *session, const char *what, struct fault *fault)
{
    return !session->elsewhere
           || fault_set(fault, FAULT_OPTION,
                        "session '%s' is spread over peers, and %s is not offered for it; make one "
                        "without spread",
                        session->id, what);
}

struct session_layer *session_layer_of(const struct session *session, int64_t number)
{
    for (int64_t i = 0; i < session->layer_count; i++)
        if (session->layers[i].number == number)
            return &session->layers[i];
    return NULL;
}

struct session_layer *session_layer_read(const struct session *session, struct session_layer *layer)
{
    return layer->shares ? session_layer_of(session, session->model->layers[layer->number].keys_of)
                         : layer;
}

void session_layer_show(struct session_layer *layer)
{
    layer->kv_len_then = layer->rows.length;
    atomic_store(&layer->kv_len, layer->rows.length);
    atomic_store(&layer->bytes, session_rows_bytes(&layer->rows));
    atomic_store(&layer->bytes_held, session_rows_bytes_held(&layer->rows));
}

int64_t session_kv_len(const struct session *session)
{
    int64_t least = INT64_MAX;
    for (int64_t i = 0; i < session->layer_count; i++) {
        const int64_t kv_len = atomic_load(&session->layers[i].kv_len);
        least = kv_len < least && !session->layers[i].keeps_nothing ? kv_len : least;
    }
    return least < INT64_MAX ? least : 0;
}

int64_t session_kv_len_then(const struct session *session)
{
    int64_t least = INT64_MAX;
    for (int64_t i = 0; i < session->layer_count; i++)
        if (session->layers[i].kv_len_then < least && !session->layers[i].keeps_nothing)
            least = session->layers[i].kv_len_then;
    return least < INT64_MAX ? least : 0;
}

void session_touch(struct session *session)
{
    atomic_store(&session->used_ns, clock_now_ns());
}

/* The lengths that the layer can go back to: "0, 7 and 12". */
static void list_lengths(const struct session_rows *rows, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "0");
    for (int64_t i = 0; i < rows->part_count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRId64,
                                 i + 1 < rows->part_count ? ", " : " and ", rows->parts[i].first);
}

bool session_state_check_cut(const struct session *session, const struct session_layer *layer,
                             int64_t length, const char *pointer, struct fault *fault)
{
    char lengths[80];
    if (!layer->rows.is_state || length >= layer->rows.length
        || session_state_is_there(&layer->rows, length))
        return true;
    list_lengths(&layer->rows, lengths, sizeof lengths);
    return fault_set_at(fault, pointer, FAULT_CONFLICT,
                        "layer %" PRId64 " of session '%s' is of the kind '%s' and keeps a state, "
                        "which cannot be cut to %" PRId64 "; those behind %s are there: fork "
                        "before what you may take back",
                        layer->number, session->id,
                        model_layer_kind(&session->model->layers[layer->number]), length, lengths);
}

void session_truncate(struct session *session, int64_t kv_len)
{
    for (int64_t i = 0; i < session->layer_count; i++) {
        struct session_layer *layer = &session->layers[i];
        session_rows_truncate(&layer->rows, kv_len);
        if (layer->rows.length == 0)
            layer->rows.shape.kv_heads = 0;
        session_layer_show(layer);
    }
}

size_t session_bytes(const struct session *session)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < session->layer_count; i++)
        bytes += atomic_load(&session->layers[i].bytes);
    return bytes;
}

size_t session_bytes_held(const struct session *session)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < session->layer_count; i++)
        bytes += atomic_load(&session->layers[i].bytes_held);
    return bytes;
}

struct session *session_fork(const struct session *session)
{
    int64_t *numbers = malloc((size_t)session->layer_count * sizeof *numbers);
    for (int64_t i = 0; numbers && i < session->layer_count; i++)
        numbers[i] = session->layers[i].number;
    struct session *fork =
        numbers ? session_create(session->model, numbers, session->layer_count) : NULL;
    free(numbers);
    if (!fork)
        return NULL;
    fork->dtype = session->dtype;
    fork->kv_len_max = session->kv_len_max;
    fork->window = session->window;
    fork->first_keys = session->first_keys;
    fork->ttl_ns = session->ttl_ns;
    fork->is_evictable = session->is_evictable;
    for (int64_t i = 0; i < session->layer_count; i++) {
        if (!session_rows_fork(&session->layers[i].rows, &fork->layers[i].rows)) {
            session_release(fork);
            return NULL;
        }
        session_layer_show(&fork->layers[i]);
    }
    return fork;
}

size_t session_own_bytes(const struct session *session)
{
    /* Of the store's tree; of its other places, with half as much room to grow; beside two of
     * malloc's. */
    enum { NODE_BYTES = 48, PLACE_BYTES = 48, BLOCKS_BYTES = 32 };
    size_t bytes = sizeof *session + NODE_BYTES + PLACE_BYTES + BLOCKS_BYTES;
    for (int64_t i = 0; i < session->layer_count; i++)
        bytes += sizeof *session->layers
                 + (size_t)session->layers[i].rows.part_count * sizeof(struct session_part);
    return bytes;
}

bool session_count_own(struct session *session, struct session_budget *budget, struct fault *fault)
{
    const size_t bytes = session_own_bytes(session);
    if (!session_memory_take(budget, session->account, bytes, fault))
        return false;
    session->budget = budget;
    session->own_bytes = bytes;
    return true;
}

/* --------------------------------------------------------------------- the window -- */

int64_t session_window_page_rows(const struct session *session)
{
    enum { PAGES = 4 }; /* of a window */
    if (session->window == 0)
        return 0;
    const int64_t part = session->window / PAGES;
    return part < SESSION_PAGE_ROWS       ? SESSION_PAGE_ROWS
           : part > SESSION_PAGE_ROWS_MAX ? SESSION_PAGE_ROWS_MAX
                                          : part / SESSION_PAGE_ROWS * SESSION_PAGE_ROWS;
}

/* The first key of the window of the row at this position. */
static int64_t window_begin(const struct session *session, int64_t position)
{
    return position < session->window ? 0 : position - session->window + 1;
}

bool session_window_check(const struct session *session, const struct session_layer *layer,
                          const struct session_rows *rows, int64_t past, const char *pointer,
                          struct fault *fault)
{
    const int64_t dropped = rows->dropped;
    if (session->window == 0 || dropped == 0 || window_begin(session, past) >= dropped)
        return true;
    return fault_set_at(
        fault, pointer, FAULT_CONFLICT,
        "rows from %" PRId64 " on see keys from %" PRId64 " on; those before %" PRId64
        " of layer %" PRId64 " of session '%s' have left its window of %" PRId64 " and are gone",
        past, window_begin(session, past), dropped, layer->number, session->id, session->window);
}

bool session_window_check_cut(const struct session *session, const struct session_layer *layer,
                              int64_t length, const char *pointer, struct fault *fault)
{
    return length <= session->first_keys
           || session_window_check(session, layer, &layer->rows, length, pointer, fault);
}

bool session_window_check_there(const struct session *session, const struct session_layer *layer,
                                int64_t first, int64_t count, const char *pointer,
                                struct fault *fault)
{
    const struct session_rows *rows = &layer->rows;
    if (first >= rows->dropped || count <= rows->dropped_from - first)
        return true;
    return fault_set_at(fault, pointer, FAULT_CONFLICT,
                        "at is %" PRId64 ", with %" PRId64 " keys; those from %" PRId64
                        " to %" PRId64 " of layer %" PRId64
                        " of session '%s' have left its window of %" PRId64 " and are gone",
                        first, count, rows->dropped_from, rows->dropped - 1, layer->number,
                        session->id, session->window);
}

void session_window_move(const struct session *session, struct session_rows *rows)
{
    if (session->window > 0)
        session_rows_drop(rows, session->first_keys, window_begin(session, rows->length));
}
