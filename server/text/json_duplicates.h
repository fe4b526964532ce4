/* json_duplicates.h - checks that no object has a key twice. */
#ifndef ATTND_JSON_DUPLICATES_H
#define ATTND_JSON_DUPLICATES_H

#include "text/json.h"

/* Checks a whole tree, at most JSON_DEPTH_MAX deep. Where it returns false, the fault is duplicate,
 * with a pointer to the key, or memory. Keys are compared after decoding: "a" and "\u0061" are the
 * same. */
bool json_duplicates_check(const cJSON *root, struct fault *fault);

#endif
