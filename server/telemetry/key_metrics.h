/* SPDX-License-Identifier: Apache-2.0 */
/* key_metrics.h - requests, counted by the name of their key.
 *
 * The number of places is fixed, as that of models is (metrics_inference.h). Keys without a place
 * are counted together as "(other)", a name that no key can have. Requests without a good key have
 * no name, and are counted together. Thread-safe; counting takes no lock. */
#ifndef ATTND_KEY_METRICS_H
#define ATTND_KEY_METRICS_H

#include "base/fault.h"
#include "json/text.h"

#include <stddef.h>
#include <stdint.h>

enum { KEY_METRICS_NAMES_MAX = 64, KEY_METRICS_PLACES = KEY_METRICS_NAMES_MAX + 1 };

/* Takes the place of keys of this name and returns it, 0 to KEY_METRICS_PLACES - 1. It is held
 * until it has been dropped as often as it was taken. */
int key_metrics_take(const char *name);
void key_metrics_drop(int place);

/* A request that was let in with the key, or refused for the key's scopes or limits, has ended with
 * this fault. */
void key_metrics_request(int place, enum fault_code code);

/* CPU time that was charged to the key. */
void key_metrics_charge(int place, int64_t ns);

/* A request was refused because it had no key, or none that is valid. */
void key_metrics_unknown(void);

/* What the keys of a place hold at the moment. */
struct key_holding {
    int64_t requests;
    size_t memory_bytes;
    int64_t sessions;
    size_t session_bytes;
};

/* Writes all of them, for GET /metrics. */
void key_metrics_write(struct text *text, const struct key_holding holdings[KEY_METRICS_PLACES]);

#endif
