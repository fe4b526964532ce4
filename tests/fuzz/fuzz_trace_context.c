/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_trace_context.c - any text as the headers traceparent and tracestate, with a newline between
 * them. What is read as a traceparent is the beginning of it, written again; a tracestate is kept
 * as its own beginning. */
#include "telemetry/trace_context.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_parent(const char *text)
{
    struct trace_context context = { .has_parent = false };
    char again[64];
    if (!trace_context_read(&context, text)) {
        require(!context.has_parent && context.flags == 0);
        return;
    }
    char *at = again;
    *at++ = '-';
    at = trace_hex(at, context.trace_id, TRACE_ID_BYTES);
    *at++ = '-';
    at = trace_hex(at, context.parent_id, SPAN_ID_BYTES);
    *at++ = '-';
    at = trace_hex(at, &context.flags, 1);
    require(context.has_parent && strncmp(again, text + 2, (size_t)(at - again)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct trace_sampler SAMPLER = { true, UINT64_C(1) << TRACE_RATIO_BITS };
    char out[TRACE_STATE_MAX + 1];
    struct trace_context context;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    char *state = strchr(text, '\n');
    if (state)
        *state++ = '\0';
    check_parent(text);
    trace_context_begin(&context, text, &SAMPLER);
    require(context.has_parent || (context.flags & TRACE_FLAG_SAMPLED));
    const size_t length = trace_state_copy(out, state);
    require(length <= TRACE_STATE_MAX && strlen(out) == length);
    require(length == 0 || strncmp(out, state, length) == 0);
    free(text);
    return 0;
}
