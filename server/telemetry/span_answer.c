/* SPDX-License-Identifier: Apache-2.0 */
/* span_answer.c - see span_answer.h. */
#include "telemetry/span_answer.h"

#include "json/json.h"
#include "json/text.h"

#include <string.h>

enum { COUNT_DIGITS_MAX = 9 };

bool span_answer_is_again(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

bool span_answer_is_taken(int status)
{
    return status >= 200 && status < 300;
}

/* Digits alone; 0 where there are others or too many. */
static uint64_t read_digits(const char *text)
{
    const size_t size = strlen(text);
    uint64_t number = 0;
    if (size > COUNT_DIGITS_MAX || strspn(text, "0123456789") != size)
        return 0;
    for (size_t i = 0; i < size; i++)
        number = number * 10 + (uint64_t)(text[i] - '0');
    return number;
}

/* By the JSON mapping a 64-bit integer is a string; readers take a number too. */
static uint64_t count_of(const cJSON *node)
{
    uint64_t count = 0;
    if (cJSON_IsNumber(node) && json_whole(node, &count))
        return count;
    return cJSON_IsString(node) ? read_digits(node->valuestring) : 0;
}

uint64_t span_answer_rejected(const char *body, size_t size, char message[SPAN_ANSWER_MESSAGE_MAX])
{
    static const struct json_options OPTIONS = { .values_max = 256 };
    struct json_document document;
    struct fault fault;
    message[0] = '\0';
    if (size == 0 || !json_read(&document, body, size, &OPTIONS, &fault))
        return 0;
    const cJSON *partial = cJSON_GetObjectItemCaseSensitive(document.root, "partialSuccess");
    const cJSON *said = cJSON_GetObjectItemCaseSensitive(partial, "errorMessage");
    const uint64_t count = count_of(cJSON_GetObjectItemCaseSensitive(partial, "rejectedSpans"));
    if (cJSON_IsString(said))
        text_copy(message, SPAN_ANSWER_MESSAGE_MAX, said->valuestring);
    json_free(&document);
    return count;
}
