/* SPDX-License-Identifier: Apache-2.0 */
/* model_guard.h - keeps the process alive when a mapped file is cut short.
 *
 * Reading a page of a mapping that lies past the end of its file raises SIGBUS, so that anybody
 * with write access to the models' directory could stop the daemon. A signal handler puts zero
 * pages there instead and marks the mapping as damaged. What was computed from a damaged mapping
 * must not be answered. */
#ifndef ATTND_MODEL_GUARD_H
#define ATTND_MODEL_GUARD_H

#include <stdbool.h>
#include <stddef.h>

enum { MODEL_GUARD_MAPPINGS_MAX = 4096 };

struct model_guard; /* one mapping that is watched */

/* Installs the handler of the process. Call it once, before threads start. */
void model_guard_install(void);

/* Watches a mapping of size bytes, size > 0, until model_guard_remove(). NULL where
 * MODEL_GUARD_MAPPINGS_MAX are watched already. */
struct model_guard *model_guard_add(const void *mapping, size_t size);

/* Call it before munmap(). NULL is fine. */
void model_guard_remove(struct model_guard *guard);

/* Whether zero pages replace the file's; false for NULL. */
bool model_guard_damaged(const struct model_guard *guard);

#endif
