/* SPDX-License-Identifier: Apache-2.0 */
/* session_file.c - writes a session: a fork as its snapshot, then the parts, checksums, settings.
 */
#include "operations/session/session_file.h"

#include "base/clock.h"
#include "models/model/model.h"
#include "json/text.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 24, SETTINGS_MAX = 20 };

struct session_file_tensor {
    char name[SESSION_FILE_NAME_MAX];
    char key[sizeof SESSION_FILE_KEY_OF + SESSION_FILE_NAME_MAX];
    char sum[SHA256_HEX_BYTES]; /* "": there was no memory for it */
    int first_part, part_count; /* its numbers */
};

/* ------------------------------------------------------------------ the snapshot -- */

/* A fork: its rows do not change, whatever the session appends or drops. */
static struct session *take_snapshot(const struct session *session)
{
    struct session *fork = session_fork(session);
    if (!fork)
        return NULL;
    text_copy(fork->id, sizeof fork->id, session->id);
    fork->account = session->account ? access_account_hold(session->account) : NULL;
    fork->created_ns = session->created_ns;
    atomic_store(&fork->used_ns, atomic_load(&session->used_ns));
    return fork;
}

/* --------------------------------------------------------------------- the parts -- */

static int count_sides(enum attn_dtype dtype, bool is_state)
{
    int count = 0;
    for (int side = 0; side < SESSION_FILE_SIDE_COUNT; side++)
        count += session_file_has_side(dtype, is_state, side);
    return count;
}

/* Tensors of all layers. */
static size_t count_tensors(const struct session *session)
{
    size_t count = 0;
    for (int64_t i = 0; i < session->layer_count; i++)
        count += (size_t)count_sides(session->dtype, session->layers[i].rows.is_state);
    return count;
}

/* Rows of a head that lie together; at most so many of all layers. */
static int64_t count_runs(const struct session *session)
{
    int64_t count = 0, more;
    for (int64_t i = 0; i < session->layer_count; i++) {
        const struct session_rows *rows = &session->layers[i].rows;
        const int sides = count_sides(session->dtype, rows->is_state);
        if (__builtin_mul_overflow(rows->part_count, sides * rows->shape.kv_heads, &more)
            || __builtin_add_overflow(count, more, &count) || count >= INT_MAX)
            return INT_MAX;
    }
    return count;
}

static void add_run(struct session_file *file, const char *data, size_t size)
{
    if (size > 0)
        file->parts[file->part_count++] = (struct byte_slice){ data, size };
}

static void add_numbers(struct session_file *file, const struct session_rows *rows, int side)
{
    size_t bytes;
    for (int64_t head = 0; head < rows->shape.kv_heads; head++)
        for (int64_t i = 0; i < rows->part_count; i++) {
            const char *numbers = session_file_run(rows, i, side, head, &bytes);
            add_run(file, numbers, bytes);
        }
}

/* Of each group of int8: whole ones, except the last of a part that was truncated. */
static bool add_groups(struct session_file *file, const struct session_rows *rows, int64_t groups,
                       struct fault *fault)
{
    int64_t *lengths = arena_calloc(&file->arena, (size_t)groups + 1, sizeof *lengths), count = 0;
    if (!lengths)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < rows->part_count && rows->parts[i].page->dtype == ATTN_I8; i++) {
        int64_t left = rows->parts[i].page->is_void ? 0 : session_rows_part_length(rows, i);
        for (; left > 0; left -= ATTN_I8_ROWS)
            lengths[count++] = left < ATTN_I8_ROWS ? left : ATTN_I8_ROWS;
    }
    add_run(file, (const char *)lengths, (size_t)count * sizeof *lengths);
    return true;
}

/* Of each state: the positions before it. */
static bool add_lengths(struct session_file *file, const struct session_rows *rows,
                        struct fault *fault)
{
    int64_t *lengths = arena_calloc(&file->arena, (size_t)rows->part_count + 1, sizeof *lengths);
    if (!lengths)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < rows->part_count; i++)
        lengths[i] = rows->parts[i].first;
    add_run(file, (const char *)lengths, (size_t)rows->part_count * sizeof *lengths);
    return true;
}

static bool add_tensor(struct session_file *file, const struct session_layer *layer, int side,
                       struct fault *fault)
{
    const struct session_rows *rows = &layer->rows;
    const struct session_file_lengths lengths = session_file_lengths_of(rows);
    struct session_file_tensor *own = &file->own[file->tensor_count];
    struct safetensors_tensor *tensor = &file->tensors[file->tensor_count++];
    snprintf(own->name, sizeof own->name, "layers.%" PRId64 ".%s", layer->number,
             session_file_side_name(side));
    snprintf(own->key, sizeof own->key, SESSION_FILE_KEY_OF "%s", own->name);
    own->first_part = file->part_count;
    if (side == SESSION_FILE_GROUP_ROWS && !add_groups(file, rows, lengths.groups, fault))
        return false;
    if (side == SESSION_FILE_STATE_AT && !add_lengths(file, rows, fault))
        return false;
    if (rows->length > 0)
        add_numbers(file, rows, side);
    own->part_count = file->part_count - own->first_part;
    tensor->name = own->name;
    tensor->dtype = session_file_side_dtype(side, file->session->dtype);
    tensor->rank = session_file_dimensions(side, &rows->shape, &lengths, tensor->shape);
    return true;
}

static bool make_tensors(struct session_file *file, struct fault *fault)
{
    const struct session *session = file->session;
    const size_t tensors = count_tensors(session);
    const int64_t runs = count_runs(session);
    if (runs == INT_MAX)
        return fault_set(fault, FAULT_ANSWER_TOO_LARGE,
                         "session '%s' has too many heads and pages for one file", session->id);
    file->own = arena_calloc(&file->arena, tensors, sizeof *file->own);
    file->tensors = arena_calloc(&file->arena, tensors, sizeof *file->tensors);
    file->parts = arena_calloc(&file->arena, (size_t)runs + 1, sizeof *file->parts);
    if (!file->own || !file->tensors || !file->parts)
        return fault_no_memory(fault);
    file->part_count = 1;
    for (int64_t i = 0; i < session->layer_count; i++)
        for (int side = 0; side < SESSION_FILE_SIDE_COUNT; side++)
            if (session_file_has_side(session->dtype, session->layers[i].rows.is_state, side)
                && !add_tensor(file, &session->layers[i], side, fault))
                return false;
    return true;
}

bool session_file_begin(struct session_file *file, const struct session *session,
                        struct memory_share *memory, struct fault *fault)
{
    *file = (struct session_file){ .now_ns = clock_now_ns() };
    file->session = take_snapshot(session);
    arena_init(&file->arena, SIZE_MAX);
    file->arena.memory = memory;
    if (file->session ? make_tensors(file, fault) : fault_no_memory(fault))
        return true;
    session_file_free(file);
    return false;
}

void session_file_free(struct session_file *file)
{
    session_release(file->session);
    arena_free(&file->arena);
    *file = (struct session_file){ .session = NULL };
}

void session_file_sum(struct session_file *file, int64_t tensor)
{
    struct session_file_tensor *own = &file->own[tensor];
    struct sha256 hash;
    sha256_begin(&hash);
    for (int i = own->first_part; i < own->first_part + own->part_count; i++)
        sha256_add(&hash, file->parts[i].data, file->parts[i].size);
    if (!sha256_end(&hash, own->sum))
        own->sum[0] = '\0';
}

/* ------------------------------------------------------------------- the settings -- */

struct settings {
    struct safetensors_pair *pairs;
    int64_t count;
    struct arena *arena;
    bool failed;
};

static void add(struct settings *settings, const char *key, const char *value)
{
    settings->pairs[settings->count++] = (struct safetensors_pair){ .key = key, .value = value };
    settings->failed = settings->failed || !value;
}

static void add_number(struct settings *settings, const char *key, int64_t value)
{
    char number[NUMBER_BYTES];
    snprintf(number, sizeof number, "%" PRId64, value);
    add(settings, key, arena_strdup(settings->arena, number));
}

/* How many keys of a layer are gone, behind the first keys that stay. */
static void add_gone(struct settings *settings, const struct session_layer *layer)
{
    char key[sizeof SESSION_FILE_KEY_GONE + NUMBER_BYTES];
    if (layer->rows.dropped == 0)
        return;
    snprintf(key, sizeof key, SESSION_FILE_KEY_GONE "%" PRId64, layer->number);
    const char *copy = arena_strdup(settings->arena, key);
    settings->failed = settings->failed || !copy;
    add_number(settings, copy ? copy : "", layer->rows.dropped - layer->rows.dropped_from);
}

static void add_settings(struct settings *settings, const struct session *session, int64_t now_ns)
{
    const int64_t idle_ns = now_ns - atomic_load(&session->used_ns);
    add(settings, SESSION_FILE_KEY_VERSION, SESSION_FILE_VERSION);
    add(settings, "session", session->id);
    if (session->account)
        add(settings, "owner", session->account->name);
    add(settings, "dtype", session_file_dtype_of(session->dtype)->name);
    if (session->kv_len_max < INT64_MAX)
        add_number(settings, "kv_len_max", session->kv_len_max);
    if (session->window > 0) {
        add_number(settings, "window", session->window);
        add_number(settings, "first_keys", session->first_keys);
        for (int64_t i = 0; i < session->layer_count; i++)
            add_gone(settings, &session->layers[i]);
    }
    add_number(settings, "ttl_ms", (session->ttl_ns + 999999) / 1000000);
    add(settings, "evictable", session->is_evictable ? "true" : "false");
    add_number(settings, "age_us", (now_ns - session->created_ns) / 1000);
    add_number(settings, "idle_us", idle_ns > 0 ? idle_ns / 1000 : 0);
}

bool session_file_write_head(struct session_file *file, struct text *text, struct fault *fault)
{
    char identity[SHA256_HEX_BYTES];
    struct session_file_digests digest;
    struct settings settings = { .arena = &file->arena };
    settings.pairs = arena_calloc(&file->arena, SETTINGS_MAX + 2 * (size_t)file->tensor_count,
                                  sizeof *settings.pairs);
    if (!settings.pairs)
        return fault_no_memory(fault);
    if (!model_identity(file->session->model, identity, fault))
        return false;
    add_settings(&settings, file->session, file->now_ns);
    add(&settings, "model", file->session->model->name);
    add(&settings, "model_sha256", identity);
    for (int64_t i = 0; i < file->tensor_count; i++)
        add(&settings, file->own[i].key, file->own[i].sum[0] ? file->own[i].sum : NULL);
    if (settings.failed)
        return fault_no_memory(fault);
    if (!session_file_digest(settings.pairs, settings.count, file->tensors, file->tensor_count,
                             &file->arena, &digest, fault))
        return false;
    add(&settings, SESSION_FILE_KEY_DIGEST, digest.whole);
    if (!safetensors_write_head(text, file->tensors, file->tensor_count, settings.pairs,
                                settings.count, fault))
        return false;
    file->parts[0] = (struct byte_slice){ text->data, text->used };
    return true;
}
