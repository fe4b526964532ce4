/* SPDX-License-Identifier: Apache-2.0 */
/* stories_trace.c - see stories_trace.h. */
#include "stories_trace.h"
#include "test.h"

#include "answer.h"
#include "fixture.h"
#include "request_text.h"

cJSON *stories_trace(const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, STORIES_PROMPT);
    request_text_add(&body, "%s}", more);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

const cJSON *stories_layer(const cJSON *answer, int place)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "layers"), place);
}
