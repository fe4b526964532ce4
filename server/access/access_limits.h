/* access_limits.h - how much a key may use: the words with a '=' of its line in the keys' file. */
#ifndef ATTND_ACCESS_LIMITS_H
#define ATTND_ACCESS_LIMITS_H

#include "base/fault.h"
#include "text/text.h"

#include <stdint.h>

struct access_limits {
    double cpu;            /* CPU seconds a second; 0: no bound */
    int64_t burst_ns;      /* CPU time that may be saved up; 0 where cpu is 0 */
    int64_t in_flight;     /* requests at a time; 0: no bound */
    int64_t memory_bytes;  /* of all its requests in flight; 0: no bound */
    int64_t sessions;      /* 0: no bound */
    int64_t session_bytes; /* of its sessions and their pages; 0: no bound */
    int64_t traces;        /* that are kept; 0: no bound */
    int64_t trace_bytes;   /* of these; 0: no bound */
    double weight;         /* its share of the workers, beside those of other keys */
    int64_t expires_s;     /* from this second on the key is not valid, UTC since 1970; INT64_MAX:
                              never */
};

/* No bounds, a weight of 1, no end. */
void access_limits_init(struct access_limits *limits);

/* The number of the limit of that name, 0 to ACCESS_LIMIT_COUNT - 1; -1 where there is none. */
enum { ACCESS_LIMIT_COUNT = 10 };
int access_limit_find(const char *name);

const char *access_limit_name(int limit);

/* What a value is, "CPU seconds a second, as in 0.5", for --help. */
const char *access_limit_help(int limit);

/* The name that a mistyped one probably means; NULL where none is near. */
const char *access_limit_nearest(const char *name);

/* Writes "cpu, burst, ..., expires", for messages; 144 bytes hold them. */
void access_limit_names(char *text, size_t bytes);

/* Sets a limit from its text in the keys' file. False, with a fault that says what came and what
 * was expected, where the text is no such value or out of bounds. */
bool access_limit_set(struct access_limits *limits, int limit, const char *text,
                      struct fault *fault);

/* To be called when all limits are set: a burst that was not given is one second of the budget. */
void access_limits_settle(struct access_limits *limits);

/* Writes " cpu=0.5 in-flight=8": what differs from access_limits_init(), as in the keys' file. */
void access_limits_write(const struct access_limits *limits, struct text *text);

#endif
