/* SPDX-License-Identifier: Apache-2.0 */
/* session_file_format.c - tables of dtypes and tensors, and where tensors lie in pages. */
#include "operations/session/session_file_format.h"

#include "json/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct session_file_dtype DTYPES[] = {
    { "f32", "F32", ATTN_F32 },
    { "f16", "F16", ATTN_F16 },
    { "bf16", "BF16", ATTN_BF16 },
    { "int8", "I8", ATTN_I8 },
};

enum { DTYPE_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

const struct session_file_dtype *session_file_dtype_of(enum attn_dtype dtype)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (DTYPES[i].dtype == dtype)
            return &DTYPES[i];
    return NULL;
}

const struct session_file_dtype *session_file_dtype_named(const char *name)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(DTYPES[i].name, name) == 0)
            return &DTYPES[i];
    return NULL;
}

bool session_file_refuse(struct fault *fault, const char *name, enum fault_code code,
                         const char *format, ...)
{
    char message[FAULT_MESSAGE_MAX + 1]; /* one more, so that fault_set() sees what is too long */
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fault_set(fault, code, "%s", message);
    fault_pointer_append(fault->pointer, 0, name);
    return false;
}

/* -------------------------------------------------------------------- the tensors -- */

static const struct {
    const char *name;
    const char *dtype; /* NULL: that of the session */
} SIDES[SESSION_FILE_SIDE_COUNT] = {
    [SESSION_FILE_KEY] = { "key", NULL },
    [SESSION_FILE_VALUE] = { "value", NULL },
    [SESSION_FILE_KEY_SCALE] = { "key_scale", "F32" },
    [SESSION_FILE_VALUE_SCALE] = { "value_scale", "F32" },
    [SESSION_FILE_GROUP_ROWS] = { "group_rows", "I64" },
    [SESSION_FILE_KEY_REST] = { "key_rest", "F32" },
    [SESSION_FILE_VALUE_REST] = { "value_rest", "F32" },
    [SESSION_FILE_STATE] = { "state", "F32" },
    [SESSION_FILE_STATE_AT] = { "state_at", "I64" },
};

bool session_file_has_side(enum attn_dtype dtype, bool is_state, int side)
{
    return is_state == (side >= SESSION_FILE_STATE)
           && (is_state || dtype == ATTN_I8 || side <= SESSION_FILE_VALUE);
}

const char *session_file_side_name(int side)
{
    return SIDES[side].name;
}

const char *session_file_side_dtype(int side, enum attn_dtype dtype)
{
    return SIDES[side].dtype ? SIDES[side].dtype : session_file_dtype_of(dtype)->tensor;
}

struct session_file_lengths session_file_lengths_of(const struct session_rows *rows)
{
    struct session_file_lengths lengths = { .rows = 0 };
    for (int64_t i = 0; i < rows->part_count; i++) {
        const int64_t length = session_rows_part_length(rows, i);
        const enum attn_dtype dtype = rows->parts[i].page->dtype;
        if (rows->parts[i].page->is_void)
            continue;
        if (dtype != rows->shape.dtype)
            lengths.rest += length;
        else
            lengths.rows += length;
        lengths.groups += dtype == ATTN_I8 ? session_page_groups(length) : 0;
    }
    return lengths;
}

int session_file_dimensions(int side, const struct session_shape *shape,
                            const struct session_file_lengths *lengths, int64_t dimensions[3])
{
    const bool is_rest = side == SESSION_FILE_KEY_REST || side == SESSION_FILE_VALUE_REST;
    const bool is_value = side == SESSION_FILE_VALUE || side == SESSION_FILE_VALUE_REST;
    if (side == SESSION_FILE_GROUP_ROWS) {
        dimensions[0] = lengths->groups;
        return 1;
    }
    if (side >= SESSION_FILE_STATE) {
        dimensions[0] = lengths->rows;
        dimensions[1] = shape->head_dim;
        return side == SESSION_FILE_STATE ? 2 : 1;
    }
    dimensions[0] = shape->kv_heads;
    dimensions[1] = is_rest                          ? lengths->rest
                    : side == SESSION_FILE_KEY_SCALE ? lengths->groups
                                                     : lengths->rows;
    dimensions[2] = is_value ? shape->v_head_dim : shape->head_dim;
    return side == SESSION_FILE_VALUE_SCALE ? 2 : 3;
}

char *session_file_run(const struct session_rows *rows, int64_t i, int side, int64_t head,
                       size_t *bytes)
{
    const struct session_part *part = &rows->parts[i];
    const struct session_page *page = part->page;
    const bool is_rest = side == SESSION_FILE_KEY_REST || side == SESSION_FILE_VALUE_REST;
    const int64_t row = head * page->rows + part->row;
    const int64_t group = (head * page->rows + part->row) / ATTN_I8_ROWS;
    const int64_t columns = rows->shape.head_dim, v_columns = rows->shape.v_head_dim;
    const size_t size = attn_dtype_size(page->dtype);
    const size_t length = (size_t)session_rows_part_length(rows, i);
    *bytes = 0;
    if (page->is_void || is_rest != (page->dtype != rows->shape.dtype))
        return NULL;
    switch ((enum session_file_side)side) {
    case SESSION_FILE_KEY:
    case SESSION_FILE_KEY_REST:
        *bytes = length * (size_t)columns * size;
        return page->key + (size_t)(row * columns) * size;
    case SESSION_FILE_VALUE:
    case SESSION_FILE_VALUE_REST:
        *bytes = length * (size_t)v_columns * size;
        return page->value + (size_t)(row * v_columns) * size;
    case SESSION_FILE_KEY_SCALE:
        *bytes = (size_t)(session_page_groups((int64_t)length) * columns) * sizeof(float);
        return (char *)(page->key_scale + group * columns);
    case SESSION_FILE_VALUE_SCALE:
        *bytes = length * sizeof(float);
        return (char *)(page->value_scale + row);
    case SESSION_FILE_STATE:
        *bytes = (size_t)columns * sizeof(float);
        return page->key;
    case SESSION_FILE_GROUP_ROWS:
    case SESSION_FILE_STATE_AT:
    case SESSION_FILE_SIDE_COUNT:
        break;
    }
    return NULL;
}

/* ------------------------------------------------------------------- the digest -- */

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_digested(const struct safetensors_pair *pair)
{
    return strcmp(pair->key, SESSION_FILE_KEY_DIGEST) != 0 && strcmp(pair->key, "format") != 0;
}

static bool is_age(const char *line)
{
    return strncmp(line, "age_us=", 7) == 0 || strncmp(line, "idle_us=", 8) == 0;
}

static char *pair_line(const struct safetensors_pair *pair, struct arena *arena)
{
    const size_t key = strlen(pair->key), value = strlen(pair->value);
    char *line = arena_alloc(arena, key + value + 2);
    if (!line)
        return NULL;
    memcpy(line, pair->key, key);
    line[key] = '=';
    memcpy(line + key + 1, pair->value, value + 1);
    return line;
}

static char *tensor_line(const struct safetensors_tensor *tensor, struct arena *arena)
{
    enum { SHAPE_BYTES = 128 };
    const size_t bytes = strlen(tensor->name) + SHAPE_BYTES;
    char *line = arena_alloc(arena, bytes);
    if (!line)
        return NULL;
    struct text text = text_in(line, bytes);
    text_raw(&text, tensor->name);
    text_raw(&text, " ");
    text_raw(&text, tensor->dtype);
    for (int i = 0; i < tensor->rank; i++) {
        text_raw(&text, i > 0 ? "," : " ");
        text_integer(&text, tensor->shape[i]);
    }
    line[text.used] = '\0';
    return line;
}

static bool digest_lines(const char *const *lines, int64_t count, bool has_ages,
                         char hex[SHA256_HEX_BYTES])
{
    struct sha256 hash;
    sha256_begin(&hash);
    for (int64_t i = 0; i < count; i++)
        if (has_ages || !is_age(lines[i])) {
            sha256_add(&hash, lines[i], strlen(lines[i]));
            sha256_add(&hash, "\n", 1);
        }
    return sha256_end(&hash, hex);
}

bool session_file_digest(const struct safetensors_pair *pairs, int64_t pair_count,
                         const struct safetensors_tensor *tensors, int64_t tensor_count,
                         struct arena *arena, struct session_file_digests *digest,
                         struct fault *fault)
{
    int64_t count = 0;
    const char **lines = arena_calloc(arena, (size_t)(pair_count + tensor_count), sizeof *lines);
    if (!lines)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < pair_count; i++)
        if (is_digested(&pairs[i]) && !(lines[count++] = pair_line(&pairs[i], arena)))
            return fault_no_memory(fault);
    for (int64_t i = 0; i < tensor_count; i++)
        if (!(lines[count++] = tensor_line(&tensors[i], arena)))
            return fault_no_memory(fault);
    qsort(lines, (size_t)count, sizeof *lines, compare_lines);
    return (digest_lines(lines, count, true, digest->whole)
            && digest_lines(lines, count, false, digest->ageless))
           || fault_no_memory(fault);
}
