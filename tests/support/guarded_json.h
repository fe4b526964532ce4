/* SPDX-License-Identifier: Apache-2.0 */
/* guarded_json.h - json_read() on a text that ends at an unreadable page.
 *
 * A body has no NUL behind it, so a test on a string literal would not see a
 * reader that goes one byte too far. */
#ifndef GUARDED_JSON_H
#define GUARDED_JSON_H

#include "guard.h"
#include "json/json.h"

static inline bool guarded_json_read(struct json_document *document, const char *text, size_t size,
                                     const struct json_options *options, struct fault *fault)
{
    struct guard_buffer guard = guard_alloc(size);
    if (size > 0)
        memcpy(guard.data, text, size);
    const bool good = json_read(document, guard.data, size, options, fault);
    guard_free(&guard);
    return good;
}

/* Reads a text that must be accepted. If it is refused, prints the reason on stderr. */
static inline bool guarded_json_takes(struct json_document *document, const char *text)
{
    static const struct json_options STRICT = { .nonfinite_allowed = false };
    struct fault fault;
    const bool good = guarded_json_read(document, text, strlen(text), &STRICT, &fault);
    if (!good)
        fprintf(stderr, "%s: %s\n", text, fault.message);
    return good;
}

#endif
