/* session_file_layer.c - see session_file_read.h: shapes of a layer's tensors, and the numbers of
 * int8. */
#include "session/session_file_read.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------ shapes -- */

static const char *dimensions_of(int side)
{
    return side == SESSION_FILE_GROUP_ROWS    ? "[groups]"
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
        return fault_set(fault, FAULT_SHAPE, "%s has %" PRId64 " dimensions; expected %s",
                         entry->name, entry->rank, dimensions_of(side))
               || session_file_point_at(fault, entry->name);
    safetensors_shape(entry, shape, rank);
    for (int i = 0; i < rank; i++)
        if (shape[i] > INT64_MAX)
            return fault_set(fault, FAULT_SHAPE,
                             "%s has a dimension of %" PRIu64 " in the session's file", entry->name,
                             shape[i])
                   || session_file_point_at(fault, entry->name);
    return true;
}

/* Tensors of positions have heads and columns, as large as they may be where there are none. */
static bool check_columns(const struct session_file_layer *layer, int64_t length,
                          struct fault *fault)
{
    const struct session_shape *shape = &layer->shape;
    if (length == 0 || (shape->kv_heads > 0 && shape->head_dim > 0 && shape->v_head_dim > 0))
        return true;
    return fault_set(fault, FAULT_SHAPE,
                     "%s has a dimension of 0 in the session's file: %" PRId64 " heads of %" PRId64
                     " and %" PRId64 " columns, and %" PRId64 " keys",
                     layer->entries[0]->name, shape->kv_heads, shape->head_dim, shape->v_head_dim,
                     length)
           || session_file_point_at(fault, layer->entries[0]->name);
}

/* Whether the other tensors of int8 have the dimensions that key, value, the lengths of groups and
 * the rest's keys make them have. */
static bool check_others(const struct session_file_layer *layer,
                         uint64_t shape[SESSION_FILE_SIDE_COUNT][3], struct fault *fault)
{
    int64_t wanted[3];
    for (int side = 2; side < SESSION_FILE_SIDE_COUNT; side++) {
        const int rank = session_file_dimensions(side, &layer->shape, &layer->lengths, wanted);
        for (int i = 0; i < rank; i++)
            if (shape[side][i] != (uint64_t)wanted[i])
                return fault_set(fault, FAULT_SHAPE,
                                 "%s has dimension %d of %" PRIu64 "; expected %" PRId64
                                 " of %s, as the other tensors of its layer have it",
                                 layer->entries[side]->name, i, shape[side][i], wanted[i],
                                 dimensions_of(side))
                       || session_file_point_at(fault, layer->entries[side]->name);
    }
    return layer->lengths.rest < ATTN_I8_ROWS
           || fault_set(fault, FAULT_SHAPE,
                        "%s has %" PRId64 " rows in the session's file; expected less than the %d "
                        "of a group",
                        layer->entries[SESSION_FILE_KEY_REST]->name, layer->lengths.rest,
                        ATTN_I8_ROWS)
           || session_file_point_at(fault, layer->entries[SESSION_FILE_KEY_REST]->name);
}

static bool check_length(const struct session_file_read *read,
                         const struct session_file_layer *layer, struct fault *fault)
{
    return layer->kv_len <= read->kv_len_max
           || fault_set(fault, FAULT_LENGTH,
                        "layer %" PRId64 " has %" PRId64
                        " keys in the session's file, more than its "
                        "kv_len_max %" PRId64,
                        layer->number, layer->kv_len, read->kv_len_max)
           || session_file_point_at(fault, layer->entries[0]->name);
}

/* Keys are gone behind the first keys, and where no later row sees them. */
static bool add_gone(const struct session_file_read *read, struct session_file_layer *layer,
                     struct fault *fault)
{
    const int64_t behind = layer->kv_len - read->first_keys;
    if (layer->gone == 0)
        return true;
    if (layer->lengths.rows < read->first_keys || behind < 1 || behind < read->window - 1)
        return fault_set(fault, FAULT_LENGTH,
                         "layer %" PRId64 " has %" PRId64
                         " keys in the session's file, and %" PRId64
                         " are gone; its window of %" PRId64 " behind %" PRId64
                         " first keys needs more of them",
                         layer->number, layer->kv_len, layer->gone, read->window, read->first_keys)
               || session_file_point_at(fault, layer->entries[0]->name);
    layer->kv_len += layer->gone;
    return layer->kv_len <= SESSION_FILE_KV_LEN_MAX
           || fault_set(fault, FAULT_LENGTH,
                        "layer %" PRId64 " has %" PRId64
                        " keys in the session's file; expected at most %" PRId64,
                        layer->number, layer->kv_len, SESSION_FILE_KV_LEN_MAX)
           || session_file_point_at(fault, layer->entries[0]->name);
}

bool session_file_read_shape(const struct session_file_read *read, struct session_file_layer *layer,
                             struct fault *fault)
{
    uint64_t shape[SESSION_FILE_SIDE_COUNT][3] = { { 0 } };
    const int count = session_file_side_count(read->dtype);
    for (int side = 0; side < count; side++)
        if (!read_dimensions(layer, side, shape[side], fault))
            return false;
    if (shape[0][0] != shape[1][0] || shape[0][1] != shape[1][1])
        return fault_set(fault, FAULT_SHAPE,
                         "key and value of layer %" PRId64 " have %" PRIu64 " and %" PRIu64
                         " heads, %" PRIu64 " and %" PRIu64 " rows",
                         layer->number, shape[0][0], shape[1][0], shape[0][1], shape[1][1])
               || session_file_point_at(fault, layer->entries[1]->name);
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
            return fault_set(fault, FAULT_OPTION,
                             "group %" PRId64 " of %s has %" PRId64 " rows; expected 1 to %d", i,
                             entry->name, length, ATTN_I8_ROWS)
                   || session_file_point_at(fault, entry->name);
        rows += length;
        ends_at_first_keys = ends_at_first_keys || rows == read->first_keys;
    }
    if (!ends_at_first_keys)
        return fault_set(fault, FAULT_OPTION,
                         "no group of %s ends at %" PRId64 ", the first "
                         "keys, behind which the others are gone",
                         entry->name, read->first_keys)
               || session_file_point_at(fault, entry->name);
    return rows == layer->lengths.rows
           || fault_set(fault, FAULT_SHAPE,
                        "the groups of %s have %" PRId64
                        " rows; the keys of its layer have %" PRId64,
                        entry->name, rows, layer->lengths.rows)
           || session_file_point_at(fault, entry->name);
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
        return fault_set(fault, FAULT_NONFINITE, "number %zu of %s is %g; expected a finite %s", i,
                         entry->name, (double)number,
                         is_scale ? "scale that is not negative, also 127 times it" : "number")
               || session_file_point_at(fault, entry->name);
    }
    return true;
}

static bool check_integers(const struct safetensors_entry *entry, struct fault *fault)
{
    const int8_t *numbers = entry->data;
    for (size_t i = 0; i < entry->size; i++)
        if (numbers[i] == INT8_MIN)
            return fault_set(fault, FAULT_OPTION, "number %zu of %s is -128; expected -127 to 127",
                             i, entry->name)
                   || session_file_point_at(fault, entry->name);
    return true;
}

bool session_file_check_numbers(const struct session_file_read *read,
                                const struct session_file_layer *layer, int side,
                                struct fault *fault)
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
    case SESSION_FILE_SIDE_COUNT:
        break;
    }
    return true;
}
