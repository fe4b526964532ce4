/* SPDX-License-Identifier: Apache-2.0 */
/* trace_context.c - reads traceparent and tracestate, makes ids, decides what is sent. */
#include "telemetry/trace_context.h"

#include "base/unique_id.h"

#include <string.h>

/* version "-" trace-id "-" parent-id "-" trace-flags */
enum {
    TRACE_ID_AT = 3,
    PARENT_ID_AT = TRACE_ID_AT + 2 * TRACE_ID_BYTES + 1,
    FLAGS_AT = PARENT_ID_AT + 2 * SPAN_ID_BYTES + 1,
    LENGTH = FLAGS_AT + 2,
};

/* ------------------------------------------------------------ hexadecimal -- */

char *trace_hex(char *out, const uint8_t *bytes, size_t size)
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        *out++ = DIGITS[bytes[i] >> 4];
        *out++ = DIGITS[bytes[i] & 15];
    }
    return out;
}

/* The specification allows lower case alone. -1: not a digit. */
static int digit(char character)
{
    if (character >= '0' && character <= '9')
        return character - '0';
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

static bool read_hex(uint8_t *bytes, size_t size, const char *text)
{
    for (size_t i = 0; i < size; i++) {
        const int high = digit(text[2 * i]);
        const int low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* ------------------------------------------------------------ traceparent -- */

/* Whether the rest behind the flags may be there. A later version may have more, after a dash; its
 * first four parts are those of version 00 (3.2.4 of the specification). Blanks behind a value are
 * no part of it (RFC 9110, 5.5), but libmicrohttpd leaves them. */
static bool is_end(const char *rest, uint8_t version)
{
    return rest[strspn(rest, " \t")] == '\0' || (version > 0 && rest[0] == '-');
}

bool trace_context_read(struct trace_context *context, const char *traceparent)
{
    struct trace_context read = *context;
    uint8_t version;
    if (!traceparent || strnlen(traceparent, LENGTH) < LENGTH || !read_hex(&version, 1, traceparent)
        || version == 0xff || !is_end(traceparent + LENGTH, version))
        return false;
    if (traceparent[TRACE_ID_AT - 1] != '-' || traceparent[PARENT_ID_AT - 1] != '-'
        || traceparent[FLAGS_AT - 1] != '-')
        return false;
    if (!read_hex(read.trace_id, TRACE_ID_BYTES, traceparent + TRACE_ID_AT)
        || !read_hex(read.parent_id, SPAN_ID_BYTES, traceparent + PARENT_ID_AT)
        || !read_hex(&read.flags, 1, traceparent + FLAGS_AT))
        return false;
    if (is_zero(read.trace_id, TRACE_ID_BYTES) || is_zero(read.parent_id, SPAN_ID_BYTES))
        return false;
    read.has_parent = true;
    *context = read;
    return true;
}

/* The last 63 bits of the id: several libraries decide by them, and so the parts of one trace are
 * sampled together. */
static bool is_sampled(const struct trace_context *context, const struct trace_sampler *sampler)
{
    uint64_t number = 0;
    if (sampler->by_parent && context->has_parent)
        return context->flags & TRACE_FLAG_SAMPLED;
    for (int i = TRACE_ID_BYTES - 8; i < TRACE_ID_BYTES; i++)
        number = number << 8 | context->trace_id[i];
    return number >> (64 - TRACE_RATIO_BITS) < sampler->bound;
}

/* A made id is never zero: then its last bit is set. */
static void make_id(uint8_t *id, const uint64_t *words, size_t size)
{
    memcpy(id, words, size);
    id[size - 1] |= is_zero(id, size);
}

void trace_context_begin(struct trace_context *context, const char *traceparent,
                         const struct trace_sampler *sampler)
{
    uint64_t words[(TRACE_ID_BYTES + SPAN_ID_BYTES) / sizeof(uint64_t)];
    *context = (struct trace_context){ .has_parent = false };
    unique_id_take(words, sizeof words / sizeof words[0]);
    make_id(context->span_id, words, SPAN_ID_BYTES);
    if (!trace_context_read(context, traceparent))
        make_id(context->trace_id, words + 1, TRACE_ID_BYTES);
    const bool sampled = is_sampled(context, sampler);
    context->flags =
        (uint8_t)((context->flags & ~TRACE_FLAG_SAMPLED) | (sampled ? TRACE_FLAG_SAMPLED : 0));
}

/* ------------------------------------------------------------- tracestate -- */

size_t trace_state_copy(char out[TRACE_STATE_MAX + 1], const char *tracestate)
{
    size_t length = 0;
    out[0] = '\0';
    for (const char *p = tracestate ? tracestate : ""; *p; p++) {
        const size_t end = (size_t)(p - tracestate) + (*p != ',');
        if ((*p < ' ' && *p != '\t') || *p > '~')
            return 0;
        if ((*p == ',' || !p[1]) && end <= TRACE_STATE_MAX)
            length = end;
    }
    memcpy(out, tracestate ? tracestate : "", length);
    out[length] = '\0';
    return length;
}
