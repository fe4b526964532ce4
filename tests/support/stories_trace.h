/* SPDX-License-Identifier: Apache-2.0 */
/* stories_trace.h - traces of one prompt of examples/models/stories260K, for laws of what is read
 * of a pass. */
#ifndef STORIES_TRACE_H
#define STORIES_TRACE_H

#include <cjson/cJSON.h>

/* The beginning of a request with the prompt, of 12 tokens. */
#define STORIES_PROMPT                                                                             \
    "{\"model\":\"stories260K\",\"tokens\":[1,403,407,261,378,400,296,5,402,280,263,271]"

/* The answer to it with these fields, such as ",\"layers\":[4]"; the caller frees it. */
cJSON *stories_trace(const char *more);

/* The layer at this place of an answer. */
const cJSON *stories_layer(const cJSON *answer, int place);

#endif
