/* json_duplicates.h - no key twice in one object. */
#ifndef ATTND_JSON_DUPLICATES_H
#define ATTND_JSON_DUPLICATES_H

#include "text/json.h"

/* Looks through a whole tree, at most JSON_DEPTH_MAX deep. On false the fault is
 * duplicate, with a pointer to the key, or memory. Keys are compared as they
 * read: "a" and "\u0061" are the same. */
bool json_duplicates_check(const cJSON *root, struct fault *fault);

#endif
