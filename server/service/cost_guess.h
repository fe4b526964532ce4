/* cost_guess.h - what a body is likely to cost that nobody has read yet.
 *
 * Requests of one path and of about one size cost about the same, mostly. So the average of what
 * was planned for the last ones is kept, for as many paths and sizes as come often. */
#ifndef ATTND_COST_GUESS_H
#define ATTND_COST_GUESS_H

#include <stddef.h>
#include <stdint.h>

/* Which requests are alike: by their path and type, and by their size within a fifth. */
uint64_t cost_guess_key(const char *path, const char *type, size_t body_bytes);

/* Predicted time of one worker; 0: no such request has been planned lately. */
int64_t cost_guess_ns(uint64_t key);

void cost_guess_learn(uint64_t key, int64_t ns);

#endif
