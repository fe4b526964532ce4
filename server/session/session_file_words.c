/* session_file_words.c - see session_file_words.h. */
#include "session/session_file_words.h"

#include "text/text.h"

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

bool session_file_point_at(struct fault *fault, const char *name)
{
    fault_pointer_append(fault->pointer, 0, name);
    return false;
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

bool session_file_digest(const struct safetensors_pair *pairs, int64_t pair_count,
                         const struct safetensors_tensor *tensors, int64_t tensor_count,
                         struct arena *arena, char hex[SHA256_HEX_BYTES], struct fault *fault)
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
    struct sha256 hash;
    sha256_begin(&hash);
    for (int64_t i = 0; i < count; i++) {
        sha256_add(&hash, lines[i], strlen(lines[i]));
        sha256_add(&hash, "\n", 1);
    }
    return sha256_end(&hash, hex) || fault_no_memory(fault);
}
