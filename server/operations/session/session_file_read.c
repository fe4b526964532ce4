/* SPDX-License-Identifier: Apache-2.0 */
/* session_file_read.c - settings, shapes, names, numbers and checksums, in the order of the checks.
 */
#include "operations/session/session_file_read.h"

#include "models/model/model_config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = SESSION_FILE_SIDE_COUNT * MODEL_LAYERS_MAX };

/* How many of the first keys the rows see, and its name in files of before. */
#define FIRST_KEYS       "first_keys"
#define FIRST_KEYS_OLDER "sinks"

/* ------------------------------------------------------------------- the settings -- */

static const char *find_text(const struct session_file_read *read, const char *key)
{
    const struct safetensors_pair *pair = safetensors_metadata(&read->file, key);
    return pair ? pair->value : NULL;
}

static bool need_text(const struct session_file_read *read, const char *key, const char **value,
                      struct fault *fault)
{
    *value = find_text(read, key);
    return *value
           || session_file_refuse(fault, key, FAULT_FIELD,
                                  "%s is missing in __metadata__ of the session's file", key);
}

/* Whether a key is left out of a file that somebody else made. */
static bool lacks(const struct session_file_read *read, const char *key)
{
    return !read->digest && !find_text(read, key);
}

/* A whole number as the writer writes it: without sign, blank or leading zero. */
static bool need_number(const struct session_file_read *read, const char *key, int64_t least,
                        int64_t most, int64_t *number, struct fault *fault)
{
    enum { DIGITS_MAX = 19 };
    const char *text;
    if (!need_text(read, key, &text, fault))
        return false;
    const size_t length = strlen(text);
    const bool is_number = length > 0 && length <= DIGITS_MAX
                           && strspn(text, "0123456789") == length && (text[0] != '0' || !text[1]);
    errno = 0;
    *number = is_number ? strtoll(text, NULL, 10) : -1;
    return (errno == 0 && *number >= least && *number <= most)
           || session_file_refuse(
               fault, key, FAULT_OPTION,
               "%s is '%.40s' in the session's file; expected a whole number from %" PRId64
               " to %" PRId64,
               key, text, least, most);
}

static bool check_version(const struct session_file_read *read, struct fault *fault)
{
    const char *version = find_text(read, SESSION_FILE_KEY_VERSION);
    if (!version)
        return session_file_refuse(fault, SESSION_FILE_KEY_VERSION, FAULT_FIELD,
                                   SESSION_FILE_KEY_VERSION
                                   " is missing in __metadata__; expected the file of "
                                   "a session, as GET /v1/sessions/{session} gives "
                                   "it");
    return strcmp(version, SESSION_FILE_VERSION) == 0
           || session_file_refuse(
               fault, SESSION_FILE_KEY_VERSION, FAULT_OPTION,
               "the session's file has version '%.20s'; this build reads version "
               "" SESSION_FILE_VERSION,
               version);
}

/* Every key means something: one that this build does not know is a newer build's. */
static bool check_keys(const struct session_file_read *read, struct fault *fault)
{
    static const char *const KNOWN[] = { SESSION_FILE_KEY_VERSION,
                                         SESSION_FILE_KEY_DIGEST,
                                         "format",
                                         "session",
                                         "owner",
                                         "model",
                                         "model_sha256",
                                         "dtype",
                                         "kv_len_max",
                                         "window",
                                         FIRST_KEYS,
                                         FIRST_KEYS_OLDER,
                                         "ttl_ms",
                                         "evictable",
                                         "age_us",
                                         "idle_us" };
    for (int64_t i = 0; i < read->file.metadata_count; i++) {
        const struct safetensors_pair *pair = &read->file.metadata[i];
        size_t known = 0;
        if (strlen(pair->key) != pair->key_length || strlen(pair->value) != pair->value_length)
            return session_file_refuse(fault, pair->key, FAULT_FIELD,
                                       "'%.60s' in __metadata__ holds a NUL character", pair->key);
        while (known < sizeof KNOWN / sizeof KNOWN[0] && strcmp(KNOWN[known], pair->key) != 0)
            known++;
        if (known == sizeof KNOWN / sizeof KNOWN[0]
            && strncmp(pair->key, SESSION_FILE_KEY_OF, strlen(SESSION_FILE_KEY_OF)) != 0
            && strncmp(pair->key, SESSION_FILE_KEY_GONE, strlen(SESSION_FILE_KEY_GONE)) != 0)
            return session_file_refuse(
                fault, pair->key, FAULT_FIELD,
                "there is '%.60s' in __metadata__ of the session's file, which this "
                "build does not know",
                pair->key);
    }
    return true;
}

static bool read_dtype(struct session_file_read *read, struct fault *fault)
{
    const char *name;
    if (!need_text(read, "dtype", &name, fault))
        return false;
    const struct session_file_dtype *dtype = session_file_dtype_named(name);
    if (!dtype)
        return session_file_refuse(
            fault, "dtype", FAULT_OPTION,
            "dtype is '%.40s' in the session's file; expected f32, f16, bf16 or int8", name);
    read->dtype = dtype->dtype;
    return true;
}

static bool read_evictable(struct session_file_read *read, struct fault *fault)
{
    const char *text;
    if (lacks(read, "evictable"))
        return true;
    if (!need_text(read, "evictable", &text, fault))
        return false;
    read->is_evictable = strcmp(text, "true") == 0;
    return read->is_evictable || strcmp(text, "false") == 0
           || session_file_refuse(
               fault, "evictable", FAULT_OPTION,
               "evictable is '%.40s' in the session's file; expected true or false", text);
}

static bool read_window(struct session_file_read *read, struct fault *fault)
{
    const bool is_older = !find_text(read, FIRST_KEYS) && find_text(read, FIRST_KEYS_OLDER);
    const char *name = is_older ? FIRST_KEYS_OLDER : FIRST_KEYS;
    if (!is_older && find_text(read, FIRST_KEYS_OLDER))
        return session_file_refuse(fault, FIRST_KEYS_OLDER, FAULT_DUPLICATE,
                                   "the session's file has " FIRST_KEYS " and " FIRST_KEYS_OLDER
                                   ", which mean the same");
    if (!find_text(read, "window"))
        return !find_text(read, name)
               || session_file_refuse(
                   fault, name, FAULT_OPTION,
                   "the session's file has %s and no window, without which they mean "
                   "nothing",
                   name);
    return need_number(read, "window", 1, INT64_MAX, &read->window, fault)
           && (lacks(read, name)
               || need_number(read, name, 0, INT64_MAX, &read->first_keys, fault));
}

static bool read_times(struct session_file_read *read, struct fault *fault)
{
    enum { US = 1000, MS = 1000000 };
    read->ttl_ns = SESSION_TTL_DEFAULT_NS / MS;
    if (!(lacks(read, "ttl_ms")
          || need_number(read, "ttl_ms", 1, SESSION_TTL_MAX_NS / MS, &read->ttl_ns, fault))
        || !(lacks(read, "age_us")
             || need_number(read, "age_us", 0, INT64_MAX / US / 2, &read->age_ns, fault))
        || !(lacks(read, "idle_us")
             || need_number(read, "idle_us", 0, INT64_MAX / US / 2, &read->idle_ns, fault)))
        return false;
    read->ttl_ns *= MS;
    read->age_ns *= US;
    read->idle_ns *= US;
    return true;
}

static bool read_settings(struct session_file_read *read, struct fault *fault)
{
    read->kv_len_max = INT64_MAX;
    read->owner = find_text(read, "owner");
    read->digest = find_text(read, SESSION_FILE_KEY_DIGEST);
    return need_text(read, "model", &read->model_name, fault)
           && (lacks(read, "model_sha256")
               || need_text(read, "model_sha256", &read->model_identity, fault))
           && (lacks(read, "session") || need_text(read, "session", &read->id, fault))
           && read_dtype(read, fault) && read_evictable(read, fault)
           && (!find_text(read, "kv_len_max")
               || need_number(read, "kv_len_max", 1, INT64_MAX, &read->kv_len_max, fault))
           && read_window(read, fault) && read_times(read, fault);
}

/* ------------------------------------------------------------------------ shapes -- */

static const char *dimensions_of(int side)
{
    return side == SESSION_FILE_STATE         ? "[states, numbers]"
           : side == SESSION_FILE_STATE_AT    ? "[states]"
           : side == SESSION_FILE_GROUP_ROWS  ? "[groups]"
           : side == SESSION_FILE_VALUE_SCALE ? "[kv_heads, kv_len]"
           : side == SESSION_FILE_KEY_SCALE   ? "[kv_heads, groups, head_dim]"
                                              : "[kv_heads, kv_len, columns]";
}

/* The dimensions that a tensor has, as many as its side has. */
static bool read_dimensions(const struct session_file_layer *layer, int side, uint64_t shape[3],
                            struct fault *fault)
{
    const struct session_file_lengths none = { .rows = 0 };
    const struct safetensors_entry *entry = layer->entries[side];
    int64_t unused[3];
    const int rank = session_file_dimensions(side, &layer->shape, &none, unused);
    if (!entry)
        return fault_set(fault, FAULT_FIELD,
                         "there is no tensor layers.%" PRId64 ".%s in the session's file",
                         layer->number, session_file_side_name(side));
    if (entry->rank != rank)
        return session_file_refuse(fault, entry->name, FAULT_SHAPE,
                                   "%s has %" PRId64 " dimensions; expected %s", entry->name,
                                   entry->rank, dimensions_of(side));
    safetensors_shape(entry, shape, rank);
    for (int i = 0; i < rank; i++)
        if (shape[i] > INT64_MAX)
            return session_file_refuse(fault, entry->name, FAULT_SHAPE,
                                       "%s has a dimension of %" PRIu64 " in the session's file",
                                       entry->name, shape[i]);
    return true;
}

/* Tensors of positions have heads and columns, as large as they may be where there are none. */
static bool check_columns(const struct session_file_layer *layer, int64_t length,
                          struct fault *fault)
{
    const struct session_shape *shape = &layer->shape;
    const bool has_values = shape->v_head_dim > 0 || shape->dtype != ATTN_I8;
    if (length == 0 || (shape->kv_heads > 0 && shape->head_dim > 0 && has_values))
        return true;
    return session_file_refuse(
        fault, layer->entries[0]->name, FAULT_SHAPE,
        "%s has a dimension of 0 in the session's file: %" PRId64 " heads of %" PRId64
        " and %" PRId64 " columns, and %" PRId64 " keys",
        layer->entries[0]->name, shape->kv_heads, shape->head_dim, shape->v_head_dim, length);
}

/* Whether the other tensors of int8 have the dimensions that key, value, the lengths of groups and
 * the rest's keys make them have. */
static bool check_others(const struct session_file_layer *layer,
                         uint64_t shape[SESSION_FILE_SIDE_COUNT][3], struct fault *fault)
{
    int64_t wanted[3];
    for (int side = 2; side < SESSION_FILE_STATE; side++) {
        const int rank = session_file_dimensions(side, &layer->shape, &layer->lengths, wanted);
        for (int i = 0; i < rank; i++)
            if (shape[side][i] != (uint64_t)wanted[i])
                return session_file_refuse(fault, layer->entries[side]->name, FAULT_SHAPE,
                                           "%s has dimension %d of %" PRIu64 "; expected %" PRId64
                                           " of %s, as the other tensors of its layer have it",
                                           layer->entries[side]->name, i, shape[side][i], wanted[i],
                                           dimensions_of(side));
    }
    return layer->lengths.rest < ATTN_I8_ROWS
           || session_file_refuse(
               fault, layer->entries[SESSION_FILE_KEY_REST]->name, FAULT_SHAPE,
               "%s has %" PRId64 " rows in the session's file; expected less than the %d "
               "of a group",
               layer->entries[SESSION_FILE_KEY_REST]->name, layer->lengths.rest, ATTN_I8_ROWS);
}

static bool check_length(const struct session_file_read *read,
                         const struct session_file_layer *layer, struct fault *fault)
{
    return layer->kv_len <= read->kv_len_max
           || session_file_refuse(fault, layer->entries[0]->name, FAULT_LENGTH,
                                  "layer %" PRId64 " has %" PRId64
                                  " keys in the session's file, more than its "
                                  "kv_len_max %" PRId64,
                                  layer->number, layer->kv_len, read->kv_len_max);
}

/* Keys are gone behind the first keys, and where no later row sees them. */
static bool add_gone(const struct session_file_read *read, struct session_file_layer *layer,
                     struct fault *fault)
{
    const int64_t behind = layer->kv_len - read->first_keys;
    if (layer->gone == 0)
        return true;
    if (layer->lengths.rows < read->first_keys || behind < 1 || behind < read->window - 1)
        return session_file_refuse(
            fault, layer->entries[0]->name, FAULT_LENGTH,
            "layer %" PRId64 " has %" PRId64 " keys in the session's file, and %" PRId64
            " are gone; its window of %" PRId64 " behind %" PRId64 " first keys needs more of them",
            layer->number, layer->kv_len, layer->gone, read->window, read->first_keys);
    layer->kv_len += layer->gone;
    return layer->kv_len <= SESSION_FILE_KV_LEN_MAX
           || session_file_refuse(fault, layer->entries[0]->name, FAULT_LENGTH,
                                  "layer %" PRId64 " has %" PRId64
                                  " keys in the session's file; expected at most %" PRId64,
                                  layer->number, layer->kv_len, SESSION_FILE_KV_LEN_MAX);
}

/* Position i that a state of the layer is behind. */
static int64_t state_at(const struct session_file_layer *layer, int64_t i)
{
    const char *numbers = layer->entries[SESSION_FILE_STATE_AT]->data;
    int64_t at;
    memcpy(&at, numbers + (size_t)i * sizeof at, sizeof at);
    return at;
}

/* Few states, of one number or more each, behind more and more positions. */
static bool read_states(struct session_file_layer *layer, const uint64_t shape[3], uint64_t count,
                        struct fault *fault)
{
    const struct safetensors_entry *entry = layer->entries[SESSION_FILE_STATE_AT];
    int64_t last = 0;
    if (shape[0] != count || count > SESSION_STATES_MAX || (count > 0 && shape[1] == 0))
        return session_file_refuse(fault, entry->name, FAULT_SHAPE,
                                   "layer %" PRId64 " has %" PRIu64 " states of %" PRIu64
                                   " numbers in the session's file and %" PRIu64
                                   " lengths of them; expected as many, and at most %d",
                                   layer->number, shape[0], shape[1], count, SESSION_STATES_MAX);
    for (int64_t i = 0; i < (int64_t)count; last = state_at(layer, i++))
        if (state_at(layer, i) <= last || state_at(layer, i) > SESSION_FILE_KV_LEN_MAX)
            return session_file_refuse(fault, entry->name, FAULT_LENGTH,
                                       "number %" PRId64 " of %s is %" PRId64
                                       "; expected more than %" PRId64 ", and at most %" PRId64,
                                       i, entry->name, state_at(layer, i), last,
                                       SESSION_FILE_KV_LEN_MAX);
    layer->shape = (struct session_shape){ count > 0, (int64_t)shape[1], 0, ATTN_F32 };
    layer->lengths = (struct session_file_lengths){ .rows = (int64_t)count };
    layer->kv_len = last;
    return true;
}

static bool read_shape(const struct session_file_read *read, struct session_file_layer *layer,
                       struct fault *fault)
{
    uint64_t shape[SESSION_FILE_SIDE_COUNT][3] = { { 0 } };
    for (int side = 0; side < SESSION_FILE_SIDE_COUNT; side++)
        if (session_file_has_side(read->dtype, layer->is_state, side)
            && !read_dimensions(layer, side, shape[side], fault))
            return false;
    if (layer->is_state)
        return read_states(layer, shape[SESSION_FILE_STATE], shape[SESSION_FILE_STATE_AT][0],
                           fault);
    if (shape[0][0] != shape[1][0] || shape[0][1] != shape[1][1])
        return session_file_refuse(fault, layer->entries[1]->name, FAULT_SHAPE,
                                   "key and value of layer %" PRId64 " have %" PRIu64
                                   " and %" PRIu64 " heads, %" PRIu64 " and %" PRIu64 " rows",
                                   layer->number, shape[0][0], shape[1][0], shape[0][1],
                                   shape[1][1]);
    layer->shape = (struct session_shape){ (int64_t)shape[0][0], (int64_t)shape[0][2],
                                           (int64_t)shape[1][2], read->dtype };
    layer->lengths = (struct session_file_lengths){ .rows = (int64_t)shape[0][1] };
    if (read->dtype == ATTN_I8) {
        layer->lengths.groups = (int64_t)shape[SESSION_FILE_GROUP_ROWS][0];
        layer->lengths.rest = (int64_t)shape[SESSION_FILE_KEY_REST][1];
        if (!check_others(layer, shape, fault))
            return false;
    }
    if (__builtin_add_overflow(layer->lengths.rows, layer->lengths.rest, &layer->kv_len))
        layer->kv_len = INT64_MAX;
    return check_columns(layer, layer->kv_len, fault) && add_gone(read, layer, fault)
           && check_length(read, layer, fault);
}

/* -------------------------------------------------------------------- the tensors -- */

/* The layer and the side that a name such as "layers.12.value" means. */
static bool read_name(const struct safetensors_entry *entry, enum attn_dtype dtype, int64_t *number,
                      int *side)
{
    static const char PREFIX[] = "layers.";
    const char *p = entry->name + sizeof PREFIX - 1;
    *number = 0;
    if (strncmp(entry->name, PREFIX, sizeof PREFIX - 1) != 0
        || strlen(entry->name) != entry->name_length || *p == '.' || (p[0] == '0' && p[1] != '.'))
        return false;
    for (; *p >= '0' && *p <= '9' && *number < MODEL_LAYERS_MAX; p++)
        *number = *number * 10 + (*p - '0');
    *side = 0;
    while (*p == '.' && *side < SESSION_FILE_SIDE_COUNT
           && strcmp(p + 1, session_file_side_name(*side)) != 0)
        (*side)++;
    return *p == '.' && *side < SESSION_FILE_SIDE_COUNT && *number < MODEL_LAYERS_MAX
           && (session_file_has_side(dtype, false, *side)
               || session_file_has_side(dtype, true, *side));
}

static struct session_file_layer *layer_of(struct session_file_read *read, int64_t number)
{
    int64_t i = 0;
    while (i < read->layer_count && read->layers[i].number != number)
        i++;
    if (i == read->layer_count)
        read->layers[read->layer_count++].number = number;
    return &read->layers[i];
}

static bool take_tensor(struct session_file_read *read, const struct safetensors_entry *entry,
                        struct fault *fault)
{
    char key[sizeof SESSION_FILE_KEY_OF + SESSION_FILE_NAME_MAX];
    int64_t number;
    int side;
    if (!read_name(entry, read->dtype, &number, &side))
        return session_file_refuse(
            fault, entry->name, FAULT_FIELD,
            "there is a tensor '%.60s' in the session's file; expected layers.0.key, "
            "layers.0.value and so on",
            entry->name);
    const char *dtype = session_file_side_dtype(side, read->dtype);
    if (strcmp(entry->dtype, dtype) != 0)
        return session_file_refuse(fault, entry->name, FAULT_DTYPE,
                                   "%s is %.8s in the session's file, whose dtype makes it %s",
                                   entry->name, entry->dtype, dtype);
    struct session_file_layer *layer = layer_of(read, number);
    layer->entries[side] = entry;
    layer->is_state = layer->is_state || side >= SESSION_FILE_STATE;
    snprintf(key, sizeof key, SESSION_FILE_KEY_OF "%s", entry->name);
    return lacks(read, key) || need_text(read, key, &layer->sums[side], fault);
}

static int compare_layers(const void *a, const void *b)
{
    const struct session_file_layer *one = a, *other = b;
    return one->number < other->number ? -1 : one->number > other->number;
}

/* The layer whose keys that are gone a key of metadata counts; NULL: none. */
static struct session_file_layer *layer_of_gone(const struct session_file_read *read,
                                                const char *key)
{
    char own[sizeof SESSION_FILE_KEY_GONE + 24];
    for (int64_t i = 0; read->window > 0 && i < read->layer_count; i++) {
        snprintf(own, sizeof own, SESSION_FILE_KEY_GONE "%" PRId64, read->layers[i].number);
        if (strcmp(own, key) == 0)
            return read->layers[i].is_state ? NULL : &read->layers[i];
    }
    return NULL;
}

/* A layer with states has no keys and values. */
static bool check_sides(const struct session_file_read *read,
                        const struct session_file_layer *layer, struct fault *fault)
{
    for (int side = 0; side < SESSION_FILE_SIDE_COUNT; side++)
        if (layer->entries[side] && !session_file_has_side(read->dtype, layer->is_state, side))
            return session_file_refuse(fault, layer->entries[side]->name, FAULT_FIELD,
                                       "layer %" PRId64 " has %s in the session's file beside "
                                       "states, which it has in place of keys and values",
                                       layer->number, session_file_side_name(side));
    return true;
}

static bool read_gone(const struct session_file_read *read, struct fault *fault)
{
    for (int64_t i = 0; i < read->file.metadata_count; i++) {
        const char *key = read->file.metadata[i].key;
        if (strncmp(key, SESSION_FILE_KEY_GONE, strlen(SESSION_FILE_KEY_GONE)) != 0)
            continue;
        struct session_file_layer *layer = layer_of_gone(read, key);
        if (!layer)
            return session_file_refuse(
                fault, key, FAULT_FIELD,
                "there is '%.60s' in __metadata__ of the session's file, which has no "
                "such layer, or no window",
                key);
        if (!need_number(read, key, 1, SESSION_FILE_KV_LEN_MAX, &layer->gone, fault))
            return false;
    }
    return true;
}

static bool read_tensors(struct session_file_read *read, struct fault *fault)
{
    const int64_t count = read->file.entry_count;
    if (count == 0 || count > TENSORS_MAX)
        return fault_set(fault, FAULT_FIELD,
                         "the session's file has %" PRId64 " tensors; expected those of 1 to %d "
                         "layers",
                         count, MODEL_LAYERS_MAX);
    read->layers = arena_calloc(&read->arena, (size_t)count, sizeof *read->layers);
    if (!read->layers)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < count; i++)
        if (!take_tensor(read, &read->file.entries[i], fault))
            return false;
    qsort(read->layers, (size_t)read->layer_count, sizeof *read->layers, compare_layers);
    if (!read_gone(read, fault))
        return false;
    for (int64_t i = 0; i < read->layer_count; i++)
        if (!check_sides(read, &read->layers[i], fault)
            || !read_shape(read, &read->layers[i], fault))
            return false;
    read->tensor_count = count;
    return true;
}

/* ----------------------------------------------------------------------- numbers -- */

static bool check_groups(const struct session_file_read *read,
                         const struct session_file_layer *layer,
                         const struct safetensors_entry *entry, struct fault *fault)
{
    const char *lengths = entry->data;
    bool ends_at_first_keys = layer->gone == 0 || read->first_keys == 0;
    int64_t rows = 0, length;
    for (int64_t i = 0; i < layer->lengths.groups; i++) {
        memcpy(&length, lengths + (size_t)i * sizeof length, sizeof length);
        if (length < 1 || length > ATTN_I8_ROWS)
            return session_file_refuse(fault, entry->name, FAULT_OPTION,
                                       "group %" PRId64 " of %s has %" PRId64
                                       " rows; expected 1 to %d",
                                       i, entry->name, length, ATTN_I8_ROWS);
        rows += length;
        ends_at_first_keys = ends_at_first_keys || rows == read->first_keys;
    }
    if (!ends_at_first_keys)
        return session_file_refuse(fault, entry->name, FAULT_OPTION,
                                   "no group of %s ends at %" PRId64 ", the first "
                                   "keys, behind which the others are gone",
                                   entry->name, read->first_keys);
    return rows == layer->lengths.rows
           || session_file_refuse(fault, entry->name, FAULT_SHAPE,
                                  "the groups of %s have %" PRId64
                                  " rows; the keys of its layer have %" PRId64,
                                  entry->name, rows, layer->lengths.rows);
}

/* A scale, with which each number is a float that is finite; or a float of the rest. */
static bool check_floats(const struct safetensors_entry *entry, bool is_scale, struct fault *fault)
{
    const char *numbers = entry->data;
    float number;
    for (size_t i = 0; i < entry->size / sizeof number; i++) {
        memcpy(&number, numbers + i * sizeof number, sizeof number);
        if (is_scale ? !signbit(number) && isfinite(number * 127.0f) : isfinite(number))
            continue;
        return session_file_refuse(
            fault, entry->name, FAULT_NONFINITE, "number %zu of %s is %g; expected a finite %s", i,
            entry->name, (double)number,
            is_scale ? "scale that is not negative, also 127 times it" : "number");
    }
    return true;
}

static bool check_integers(const struct safetensors_entry *entry, struct fault *fault)
{
    const int8_t *numbers = entry->data;
    for (size_t i = 0; i < entry->size; i++)
        if (numbers[i] == INT8_MIN)
            return session_file_refuse(fault, entry->name, FAULT_OPTION,
                                       "number %zu of %s is -128; expected -127 to 127", i,
                                       entry->name);
    return true;
}

static bool check_numbers(const struct session_file_read *read,
                          const struct session_file_layer *layer, int side, struct fault *fault)
{
    const struct safetensors_entry *entry = layer->entries[side];
    if (read->dtype != ATTN_I8)
        return true;
    switch ((enum session_file_side)side) {
    case SESSION_FILE_KEY:
    case SESSION_FILE_VALUE:
        return check_integers(entry, fault);
    case SESSION_FILE_KEY_SCALE:
    case SESSION_FILE_VALUE_SCALE:
        return check_floats(entry, true, fault);
    case SESSION_FILE_GROUP_ROWS:
        return check_groups(read, layer, entry, fault);
    case SESSION_FILE_KEY_REST:
    case SESSION_FILE_VALUE_REST:
        return check_floats(entry, false, fault);
    case SESSION_FILE_STATE:
    case SESSION_FILE_STATE_AT:
    case SESSION_FILE_SIDE_COUNT:
        break;
    }
    return true;
}

/* ---------------------------------------------------------------------- checksums -- */

static bool check_digest(struct session_file_read *read, struct fault *fault)
{
    const struct safetensors *file = &read->file;
    struct session_file_digests *digest = arena_alloc(&read->arena, sizeof *digest);
    struct safetensors_tensor *tensors =
        arena_calloc(&read->arena, (size_t)file->entry_count, sizeof *tensors);
    if (!tensors || !digest)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < file->entry_count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        uint64_t shape[3] = { 0 };
        safetensors_shape(entry, shape, entry->rank);
        tensors[i] = (struct safetensors_tensor){
            .name = entry->name,
            .rank = (int)entry->rank,
            .shape = { (int64_t)shape[0], (int64_t)shape[1], (int64_t)shape[2] },
            .dtype = entry->dtype,
        };
    }
    if (!session_file_digest(file->metadata, file->metadata_count, tensors, file->entry_count,
                             &read->arena, digest, fault))
        return false;
    const bool is_whole = strcmp(read->digest, digest->whole) == 0;
    read->digest = digest->ageless;
    return is_whole
           || session_file_refuse(
               fault, SESSION_FILE_KEY_DIGEST, FAULT_BINARY,
               "the settings or shapes of the session's file are not those that its "
               "" SESSION_FILE_KEY_DIGEST " was made of: the file is damaged");
}

/* The layer and the side of a tensor by its number. */
static const struct session_file_layer *find_tensor(const struct session_file_read *read,
                                                    int64_t tensor, int *side)
{
    for (int64_t i = 0; i < read->layer_count; i++)
        for (*side = 0; *side < SESSION_FILE_SIDE_COUNT; (*side)++)
            if (session_file_has_side(read->dtype, read->layers[i].is_state, *side)
                && tensor-- == 0)
                return &read->layers[i];
    return NULL;
}

bool session_file_check_sum(const struct session_file_read *read, int64_t tensor,
                            struct fault *fault)
{
    int side = 0;
    const struct session_file_layer *layer = find_tensor(read, tensor, &side);
    const struct safetensors_entry *entry = layer->entries[side];
    char sum[SHA256_HEX_BYTES];
    struct sha256 hash;
    if (!layer->sums[side])
        return check_numbers(read, layer, side, fault);
    sha256_begin(&hash);
    sha256_add(&hash, entry->data, entry->size);
    if (!sha256_end(&hash, sum))
        return fault_no_memory(fault);
    if (strcmp(sum, layer->sums[side]) == 0)
        return check_numbers(read, layer, side, fault);
    return session_file_refuse(
        fault, entry->name, FAULT_BINARY,
        "the numbers of %s are not those that its checksum in the session's file was "
        "made of: the file is damaged",
        entry->name);
}

bool session_file_check_id(const struct session_file_read *read, const char *id,
                           struct fault *fault)
{
    const size_t length = strlen(read->model_name);
    const bool is_sequence = strncmp(id, read->model_name, length) == 0 && id[length] == ':'
                             && session_is_id(id + length + 1);
    return is_sequence || session_id_check(id, fault);
}

bool session_file_check_sums(const struct session_file_read *read, struct fault *fault)
{
    for (int64_t i = 0; i < read->tensor_count; i++)
        if (!session_file_check_sum(read, i, fault))
            return false;
    return true;
}

/* -------------------------------------------------------------------------- whole -- */

bool session_file_read(struct session_file_read *read, const void *bytes, size_t size,
                       struct memory_share *memory, struct fault *fault)
{
    *read = (struct session_file_read){ .layer_count = 0 };
    if (!safetensors_read(&read->file, bytes, size, fault))
        return false;
    arena_init(&read->arena, SIZE_MAX);
    read->arena.memory = memory;
    if (check_version(read, fault) && check_keys(read, fault) && read_settings(read, fault)
        && read_tensors(read, fault) && (!read->digest || check_digest(read, fault)))
        return true;
    session_file_read_free(read);
    return false;
}

void session_file_read_free(struct session_file_read *read)
{
    safetensors_free(&read->file);
    arena_free(&read->arena);
    *read = (struct session_file_read){ .layer_count = 0 };
}
