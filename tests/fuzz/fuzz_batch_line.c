/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_batch_line.c - any bytes as a line of attnd batch, beside the strict reader of JSON.
 *
 * A line that is taken is JSON if its body is {}, with the id that the line has, and its body is an
 * object by its brackets. A line that is JSON and has the four fields as they should be is taken.
 */
#include "batch/batch_line.h"
#include "json/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static const char *text_of(const struct json_document *document, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(document->root, name));
}

static void check_taken(const struct batch_line *line, const char *original, size_t size,
                        size_t offset)
{
    const struct json_options options = { .nul_is_kept = true };
    const size_t end = offset + line->body.size;
    struct json_document document;
    struct fault fault;
    require(original[offset] == '{' && original[end - 1] == '}' && end <= size);
    char *text = malloc(size + 2);
    require(text);
    memcpy(text, original, offset);
    memcpy(text + offset, "{}", 2);
    memcpy(text + offset + 2, original + end, size - end);
    require(json_read(&document, text, size - line->body.size + 2, &options, &fault));
    require(cJSON_GetArraySize(document.root) == 4);
    require(strcmp(text_of(&document, "custom_id"), line->id) == 0);
    require(strcmp(text_of(&document, "method"), line->method) == 0);
    require(strcmp(text_of(&document, "url"), line->url) == 0);
    require(line->id_size == strlen(line->id) && line->id_size <= BATCH_ID_MAX);
    json_free(&document);
    free(text);
}

static bool is_good(const char *original, size_t size)
{
    const struct json_options options = { .nul_is_kept = true };
    struct json_document document;
    struct fault fault;
    if (!json_read(&document, original, size, &options, &fault))
        return false;
    const char *id = text_of(&document, "custom_id"), *method = text_of(&document, "method");
    const char *url = text_of(&document, "url");
    const bool good = cJSON_GetArraySize(document.root) == 4 && id && method && url && id[0]
                      && strlen(id) <= BATCH_ID_MAX && !strstr(id, JSON_STRING_NUL)
                      && !strstr(method, JSON_STRING_NUL) && !strstr(url, JSON_STRING_NUL)
                      && cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(document.root, "body"));
    json_free(&document);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct batch_line line;
    struct fault fault = { .code = FAULT_NONE };
    char *text = malloc(size + 1); /* with one byte more: malloc(0) may be NULL */
    require(text);
    memcpy(text, data, size);
    if (batch_line_read(&line, text, size, &fault)) {
        check_taken(&line, (const char *)data, size, (size_t)((const char *)line.body.data - text));
    } else {
        require(fault.code != FAULT_NONE && fault.message[0]);
        require(!is_good((const char *)data, size));
    }
    free(text);
    return 0;
}
