/* v1_weight_map.h - the field weight_map of a request of the native API. */
#ifndef ATTND_V1_WEIGHT_MAP_H
#define ATTND_V1_WEIGHT_MAP_H

#include "wire/v1_fields.h"

/* {"heads": "all", "rows": [7], "top_k": 8, "pool": [64, 64]}, each member optional. Reads it into
 * the reader's item; how it fits the call is for the plan to see. */
bool v1_read_weight_map(struct v1_reader *reader, const cJSON *node);

#endif
