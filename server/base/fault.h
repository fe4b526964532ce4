/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - what went wrong with a request, in the words that the client reads.
 *
 * A fault has a code (API.md has the table of codes, which fixes the HTTP status), a message that
 * names the field, what came and what was expected, and where it makes sense a JSON pointer.
 * Setting a fault allocates nothing. */
#ifndef ATTND_FAULT_H
#define ATTND_FAULT_H

#include "attn.h"

#include <stdarg.h>

#define FAULT_MAP(X)                                                                               \
    /* name              code on the wire     http */                                              \
    X(JSON, "json", 400)                                                                           \
    X(FIELD, "field", 400)                                                                         \
    X(DUPLICATE, "duplicate", 400)                                                                 \
    X(TYPE, "type", 400)                                                                           \
    X(SHAPE, "shape", 400)                                                                         \
    X(RAGGED, "ragged", 400)                                                                       \
    X(NONFINITE, "nonfinite", 400)                                                                 \
    X(OPTION, "option", 400)                                                                       \
    X(LENGTH, "length", 400)                                                                       \
    X(DTYPE, "dtype", 400)                                                                         \
    X(BINARY, "binary", 400)                                                                       \
    X(CODING, "encoding", 400)                                                                     \
    X(ENCODING, "encoding", 415)                                                                   \
    X(HTTP, "http", 400)                                                                           \
    X(CONTENT_TYPE, "content_type", 415)                                                           \
    X(KEY, "key", 401)                                                                             \
    X(NOT_FOUND, "not_found", 404)                                                                 \
    X(METHOD, "method", 405)                                                                       \
    X(HEADERS, "headers", 431)                                                                     \
    X(CONFLICT, "conflict", 409)                                                                   \
    X(GONE, "gone", 410)                                                                           \
    X(SCOPE, "scope", 403)                                                                         \
    X(FORBIDDEN, "forbidden", 403)                                                                 \
    X(MOVED, "moved", 307)                                                                         \
    X(TOO_LARGE, "too_large", 413)                                                                 \
    X(ANSWER_TOO_LARGE, "answer_too_large", 413)                                                   \
    X(TIMEOUT, "timeout", 408)                                                                     \
    X(LEFT, "cancelled", 499)                                                                      \
    X(QUOTA, "quota", 429)                                                                         \
    X(OVERLOADED, "overloaded", 429)                                                               \
    X(DEADLINE, "deadline", 504)                                                                   \
    X(LOADING, "loading", 503)                                                                     \
    X(DRAINING, "draining", 503)                                                                   \
    X(MEMORY, "memory", 503)                                                                       \
    X(FULL, "memory", 503) /* a budget for what stays is full: a fault of one item */              \
    X(PEER, "peer", 503)   /* a daemon that a session is spread over */                            \
    X(STORAGE, "storage", 507)

enum fault_code {
    FAULT_NONE,
#define X(name, code, http) FAULT_##name,
    FAULT_MAP(X)
#undef X
        FAULT_CODE_COUNT
};

enum { FAULT_MESSAGE_MAX = 640, FAULT_POINTER_MAX = 128 };

/* Where something is that was here: a server, and its name in Attnd-Replica, "" where it has none.
 * Both stay until the daemon ends. */
struct fault_place {
    const char *url, *replica;
};

struct fault {
    enum fault_code code;
    char message[FAULT_MESSAGE_MAX]; /* UTF-8, cut at a character where it is too long */
    char pointer[FAULT_POINTER_MAX]; /* RFC 6901, "/requests/1/query"; "" where there is none */
    int retry_after_s; /* for Retry-After, set after fault_set(); 0: the default of 1 */
    const struct fault_place *place; /* of FAULT_MOVED, set after fault_set(); else NULL */
};

int fault_http_status(enum fault_code code);

/* Retry-After of an answer with this status, in seconds, where the fault says retry_after_s; 0: no
 * such header. */
int fault_retry_after_s(int status, int retry_after_s);

const char *fault_code_name(enum fault_code code);

/* Sets the code and the message; clears the pointer and what is set after it. Returns false, so
 * that a function can end with return fault_set(...). */
bool fault_set(struct fault *fault, enum fault_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same as fault_set(), with a JSON pointer whose keys are already escaped. */
bool fault_set_at(struct fault *fault, const char *pointer, enum fault_code code,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Puts prefix before the pointer: "/query" becomes "/requests/1/query". */
void fault_prefix_pointer(struct fault *fault, const char *prefix);

/* Puts the name of the file that it is about before the message, and ": "; a lack of memory is
 * about none. Returns false. */
bool fault_name_file(struct fault *fault, const char *name);

/* Appends "/key" to the first used bytes of a pointer, with / and ~ escaped as RFC 6901 says.
 * Returns the new length. A key that does not fit adds nothing: the pointer then names the
 * enclosing value. */
size_t fault_pointer_append(char pointer[FAULT_POINTER_MAX], size_t used, const char *key);

/* Sets the fault for a lack of memory, which has one message everywhere. Returns false. */
bool fault_no_memory(struct fault *fault);

/* Sets the fault for an error of open() or another call by which the system says that it has no
 * more memory or no more open files. False, and the fault is not set, for any other error. */
bool fault_from_shortage(struct fault *fault, int error);

/* clang's analyzer, which reads one file at a time, learns here what these return. */
#ifdef __clang_analyzer__
#define fault_set(...)       ((fault_set)(__VA_ARGS__), false)
#define fault_set_at(...)    ((fault_set_at)(__VA_ARGS__), false)
#define fault_name_file(...) ((fault_name_file)(__VA_ARGS__), false)
#define fault_no_memory(...) ((fault_no_memory)(__VA_ARGS__), false)
#endif

/* Sets the fault for what a check of the library found; where is the field at fault
 * ("query.shape[3]"). Returns false. */
bool fault_from_attn(struct fault *fault, enum attn_status status, const char *where);

#endif
