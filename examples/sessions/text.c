/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - see text.h. */
#include "text.h"

#include <stdio.h>

const char MODEL[] = "stories260K";

static cJSON *request_of(const char *name, cJSON *value)
{
    cJSON *body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "model", MODEL);
    cJSON_AddItemToObject(body, name, value);
    return body;
}

int text_tokens(struct daemon *daemon, const char *text, int tokens[TOKENS_MAX])
{
    int count = 0;
    cJSON *answer =
        daemon_post(daemon, "/v1/tokenize", request_of("text", cJSON_CreateString(text)));
    const cJSON *token;
    cJSON_ArrayForEach(token, cJSON_GetObjectItem(answer, "tokens"))
    {
        if (count == TOKENS_MAX)
            fail(text, "is too long for a beginning");
        tokens[count++] = cJSON_GetObjectItem(token, "id")->valueint;
    }
    cJSON_Delete(answer);
    return count;
}

void text_print(struct daemon *daemon, const int *tokens, int count, int ids)
{
    if (ids) {
        for (int i = 0; i < count; i++)
            printf("%d%s", tokens[i], i < count - 1 ? " " : "\n");
        return;
    }
    cJSON *answer = daemon_post(daemon, "/v1/detokenize",
                                request_of("tokens", cJSON_CreateIntArray(tokens, count)));
    puts(cJSON_GetObjectItem(answer, "text")->valuestring);
    cJSON_Delete(answer);
}

static void take_prediction(struct prediction *prediction, const cJSON *json)
{
    const cJSON *token;
    int i = 0;
    cJSON_ArrayForEach(token, cJSON_GetObjectItem(json, "tokens"))
    {
        prediction->ids[i] = cJSON_GetObjectItem(token, "id")->valueint;
        prediction->logprobs[i++] = cJSON_GetObjectItem(token, "logprob")->valuedouble;
    }
}

void text_go_on(struct daemon *daemon, const char *session, const int *tokens, int count, int at,
                int wanted, int top, struct prediction *predictions)
{
    static const char *const OUTPUTS[] = { "predictions" };
    char path[128];
    cJSON *body = cJSON_CreateObject(), *positions = cJSON_CreateArray();
    for (int i = count - wanted; i < count; i++)
        cJSON_AddItemToArray(positions, cJSON_CreateNumber(i));
    cJSON_AddItemToObject(body, "tokens", cJSON_CreateIntArray(tokens, count));
    cJSON_AddNumberToObject(body, "at", at);
    cJSON_AddItemToObject(body, "layers", cJSON_CreateArray());
    cJSON_AddItemToObject(body, "outputs", cJSON_CreateStringArray(OUTPUTS, 1));
    cJSON_AddItemToObject(body, "positions", positions);
    cJSON_AddNumberToObject(body, "top_k_tokens", top);
    snprintf(path, sizeof path, "/v1/sessions/%s/trace", session);
    cJSON *answer = daemon_post(daemon, path, body);
    const cJSON *json;
    cJSON_ArrayForEach(json, cJSON_GetObjectItem(answer, "predictions"))
        take_prediction(predictions++, json);
    cJSON_Delete(answer);
}
