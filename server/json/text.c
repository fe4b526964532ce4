/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - see text.h.
 *
 * The buffer always has one byte more than its capacity. vsnprintf() writes a NUL byte at the end,
 * and with this byte it can write in place even where the text fills its bound exactly. */
#include "json/text.h"

#include "base/utf8.h"
#include "json/json_numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_CAPACITY_MIN = 1024, TEXT_FORMAT_BYTES = 256, DEFERRED_CAPACITY_MIN = 16 };
enum { TEXT_SPARE_BYTES_MAX = 64 << 10 };

void text_init(struct text *text, size_t bytes_max)
{
    /* The extra byte for vsnprintf() must not make the size overflow. */
    *text = (struct text){ .bytes_max = bytes_max < SIZE_MAX ? bytes_max : SIZE_MAX - 1 };
}

struct text text_in(char *buffer, size_t buffer_size)
{
    return (
        struct text){ .data = buffer, .capacity = buffer_size - 1, .bytes_max = buffer_size - 1 };
}

void text_free(struct text *text)
{
    if (!text)
        return;
    free(text->data);
    *text = (struct text){ .bytes_max = text->bytes_max };
}

void text_trim(struct text *text)
{
    char *data = text->capacity - text->used > TEXT_SPARE_BYTES_MAX
                     ? realloc(text->data, text->used + 1)
                     : NULL;
    if (!data)
        return;
    text->data = data;
    text->capacity = text->used;
}

static bool grow(struct text *text, size_t size)
{
    if (size > text->bytes_max - text->used) {
        text->failed = FAULT_ANSWER_TOO_LARGE;
        return false;
    }
    size_t capacity = text->capacity < TEXT_CAPACITY_MIN / 2  ? TEXT_CAPACITY_MIN
                      : text->capacity <= text->bytes_max / 2 ? text->capacity * 2
                                                              : text->bytes_max;
    if (capacity < text->used + size)
        capacity = text->used + size;
    if (capacity > text->bytes_max)
        capacity = text->bytes_max;
    char *data = memory_reserve(text->memory, capacity - text->capacity)
                     ? realloc(text->data, capacity + 1)
                     : NULL;
    if (!data) {
        text->failed = FAULT_MEMORY;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

char *text_reserve(struct text *text, size_t size)
{
    if (text->failed != FAULT_NONE)
        return NULL;
    if ((!text->data || size > text->capacity - text->used) && !grow(text, size))
        return NULL;
    return text->data + text->used;
}

void text_bytes(struct text *text, const char *bytes, size_t size)
{
    const bool fits =
        text->data && text->failed == FAULT_NONE && size <= text->capacity - text->used;
    char *out = fits ? text->data + text->used : text_reserve(text, size);
    if (!out || size == 0)
        return;
    memcpy(out, bytes, size);
    text->used += size;
}

void text_raw(struct text *text, const char *literal)
{
    text_bytes(text, literal, strlen(literal));
}

/* The escape for a byte inside a string; NULL where the byte needs none. */
static const char *escape_of(unsigned char byte, char hex[7])
{
    switch (byte) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        if (byte >= 0x20)
            return NULL;
        snprintf(hex, 7, "\\u%04x", (unsigned)byte);
        return hex;
    }
}

/* Each byte that is not UTF-8 becomes U+FFFD: names come from anywhere, and a parser may refuse a
 * whole answer for one bad byte. */
void text_string(struct text *text, const char *string)
{
    text_string_bytes(text, string, strlen(string));
}

void text_string_bytes(struct text *text, const char *string, size_t size)
{
    const char *end = string + size;
    const char *plain = string; /* the first byte that is not copied yet */
    const char *p = string;
    text_bytes(text, "\"", 1);
    while (p < end) {
        char hex[7];
        const char *instead = escape_of((unsigned char)*p, hex);
        size_t taken = 1;
        if (!instead) {
            taken = utf8_character_size(p, (size_t)(end - p));
            if (taken == 0) {
                taken = 1;
                instead = "\xEF\xBF\xBD";
            }
        }
        if (instead) {
            text_bytes(text, plain, (size_t)(p - plain));
            text_raw(text, instead);
            plain = p + taken;
        }
        p += taken;
    }
    text_bytes(text, plain, (size_t)(p - plain));
    text_bytes(text, "\"", 1);
}

void text_key(struct text *text, const char *key)
{
    text_string(text, key);
    text_bytes(text, ":", 1);
}

void text_decimal(struct text *text, int64_t value, int places)
{
    char digits[JSON_INTEGER_BYTES_MAX];
    const size_t size = json_write_decimal(digits, value, places);
    text_bytes(text, digits, size);
}

void text_integer(struct text *text, int64_t value)
{
    text_decimal(text, value, 0);
}

void text_float(struct text *text, float value)
{
    if (text->capacity - text->used >= JSON_FLOAT_BYTES_MAX && text->failed == FAULT_NONE) {
        text->used += json_write_float(text->data + text->used, value);
        return;
    }
    /* Near the bound, ask only for the bytes that the number really takes: a request for the most
     * that it could take would fail too early. */
    char number[JSON_FLOAT_BYTES_MAX] = { 0 };
    text_bytes(text, number, json_write_float(number, value));
}

void text_format(struct text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    char shorter[TEXT_FORMAT_BYTES];
    const int length = vsnprintf(shorter, sizeof shorter, format, args);
    if (length < 0) {
        if (text->failed == FAULT_NONE)
            text->failed = FAULT_MEMORY;
    } else if ((size_t)length < sizeof shorter) {
        text_bytes(text, shorter, (size_t)length);
    } else {
        char *out = text_reserve(text, (size_t)length);
        if (out) {
            vsnprintf(out, (size_t)length + 1, format, again);
            text->used += (size_t)length;
        }
    }
    va_end(again);
    va_end(args);
}

/* Reserves room for a tensor of few numbers at once, so that the text does not grow, and copy
 * itself, in many steps. Not for many numbers: they may take much less than the most that they
 * could. */
static void expect_numbers(struct text *text, const struct tensor_text *tensor, size_t most)
{
    enum { NUMBERS_MAX = 4096 };
    const size_t bytes = (size_t)tensor->count * most;
    if (tensor->count <= NUMBERS_MAX && bytes <= text->bytes_max - text->used)
        text_reserve(text, bytes);
}

/* Writes a tensor in parts, each of as many numbers as there is room for in any case. */
static void write_numbers(struct text *text, const struct tensor_text *tensor)
{
    const size_t most = tensor_text_number_bytes(tensor);
    expect_numbers(text, tensor, most);
    for (int64_t first = 0, some = 1; first < tensor->count && text->failed == FAULT_NONE;
         first += some) {
        const int64_t left = tensor->count - first;
        const size_t room = (text->capacity - text->used) / most;
        some = (uint64_t)left < room ? left : (int64_t)room;
        if (some > 0) {
            text->used += tensor_text_write(tensor, first, some, text->data + text->used);
            continue;
        }
        /* Near the bound, ask only for the bytes that one number really takes, as text_float(). */
        char number[TENSOR_TEXT_NUMBER_BYTES_MAX];
        some = 1;
        const size_t size = tensor_text_write(tensor, first, some, number);
        text_bytes(text, number, size);
    }
}

/* Writes a tensor without numbers, one of whose dimensions is 0. */
static void write_empty(struct text *text, int rank, const int64_t *shape)
{
    text_bytes(text, "[", 1);
    for (int64_t i = 0; rank > 1 && i < shape[0] && text->failed == FAULT_NONE; i++) {
        text_bytes(text, ",", i > 0);
        write_empty(text, rank - 1, shape + 1);
    }
    text_bytes(text, "]", 1);
}

/* Notes the tensor instead of writing it; false where the tensor must be written at once. */
static bool defer(struct text *text, const struct tensor_text *tensor)
{
    struct text_deferred *deferred = text->deferred;
    if (!deferred || tensor->count < TEXT_DEFERRED_NUMBERS_MIN || text->failed != FAULT_NONE)
        return false;
    if (deferred->count == deferred->capacity) {
        const size_t more = (size_t)deferred->capacity + DEFERRED_CAPACITY_MIN;
        const size_t capacity = (size_t)deferred->capacity + more;
        struct text_deferral *gaps = memory_reserve(text->memory, more * sizeof *gaps)
                                         ? reallocarray(deferred->gaps, capacity, sizeof *gaps)
                                         : NULL;
        if (!gaps) {
            text->failed = FAULT_MEMORY;
            return true;
        }
        deferred->gaps = gaps;
        deferred->capacity = (int64_t)capacity;
    }
    deferred->gaps[deferred->count++] = (struct text_deferral){ *tensor, text->used };
    return true;
}

void text_numbers(struct text *text, const struct tensor_text *tensor)
{
    if (tensor->count == 0)
        write_empty(text, tensor->rank, tensor->shape);
    else if (!defer(text, tensor))
        write_numbers(text, tensor);
}

void text_tensor(struct text *text, const float *values, int rank, const int64_t *shape)
{
    if (rank == 0) {
        text_float(text, *values);
        return;
    }
    const struct tensor_text tensor = tensor_text_make(values, ATTN_F32, rank, shape);
    text_numbers(text, &tensor);
}

void text_copy(char *out, size_t out_size, const char *string)
{
    const size_t size = strnlen(string, out_size - 1);
    memcpy(out, string, size);
    out[size] = '\0';
}

bool text_finish(const struct text *text, struct fault *fault)
{
    if (text->failed == FAULT_NONE)
        return true;
    if (text->failed == FAULT_ANSWER_TOO_LARGE)
        return fault_set(fault, FAULT_ANSWER_TOO_LARGE, "the answer is over the limit of %zu bytes",
                         text->bytes_max);
    return fault_no_memory(fault);
}
