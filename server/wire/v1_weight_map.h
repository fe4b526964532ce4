/* v1_weight_map.h - the field weight_map of a request of the native API. */
#ifndef ATTND_V1_WEIGHT_MAP_H
#define ATTND_V1_WEIGHT_MAP_H

#include "wire/v1_fields.h"

/* Reads {"heads": "all", "rows": [7], "region": {"rows": [0, 9], "keys": [0, 9]}, "top_k": 8,
 * "pool": [64, 64]}, in which each member is optional, into the reader's item. The plan checks
 * whether it fits the call. */
bool v1_read_weight_map(struct v1_reader *reader, const cJSON *node);

#endif
