/* model_guard.h - a mapped file that is cut short does not end the process.
 *
 * To touch a page of a mapping behind the end of its file is SIGBUS, and whoever
 * may write to the models' directory could so stop the daemon. A handler puts
 * zero pages there instead and marks the mapping as damaged; what was computed
 * with it since is then not answered. */
#ifndef ATTND_MODEL_GUARD_H
#define ATTND_MODEL_GUARD_H

#include <stdbool.h>
#include <stddef.h>

enum { MODEL_GUARD_MAPPINGS_MAX = 4096 };

struct model_guard; /* one mapping that is watched */

/* Installs the handler, for the whole process; once, before threads start. */
void model_guard_install(void);

/* Watches a mapping of size bytes, size > 0, until model_guard_remove(). NULL where
 * MODEL_GUARD_MAPPINGS_MAX are watched already. */
struct model_guard *model_guard_add(const void *mapping, size_t size);

/* To be called before the mapping goes. NULL is fine. */
void model_guard_remove(struct model_guard *guard);

/* Whether zero pages stand where the file should. */
bool model_guard_damaged(const struct model_guard *guard);

#endif
