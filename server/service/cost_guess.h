/* cost_guess.h - the likely cost of a request whose body has not been read.
 *
 * Requests of the same path and about the same size mostly cost about the same. So a table keeps a
 * moving average of the planned cost for each path and size that comes often. */
#ifndef ATTND_COST_GUESS_H
#define ATTND_COST_GUESS_H

#include <stddef.h>
#include <stdint.h>

/* Requests with the same key are alike: of one path, one type, and one size within a fifth. */
uint64_t cost_guess_key(const char *path, const char *type, size_t body_bytes);

/* Predicted time of one worker; 0: no request with this key has been planned lately. */
int64_t cost_guess_ns(uint64_t key);

/* A request with this key has been planned at ns. */
void cost_guess_learn(uint64_t key, int64_t ns);

#endif
