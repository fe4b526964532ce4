/* SPDX-License-Identifier: Apache-2.0 */
/* token_lines.c - see token_lines.h. */
#include "token_lines.h"

#include "test.h"

#include <sys/stat.h>

cJSON *token_lines_read(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "tests/conformance/%s", name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be opened", path);
    struct stat status;
    assert_int_equal(fstat(fileno(file), &status), 0);
    char *text = malloc((size_t)status.st_size + 1);
    assert_int_equal(fread(text, 1, (size_t)status.st_size, file), status.st_size);
    text[status.st_size] = '\0';
    fclose(file);
    /* The strings of cJSON end at U+0000: bytes that are no UTF-8 take its place. */
    for (char *nul = text; (nul = strstr(nul, "\\u0000"));)
        memcpy(nul, "\xC0\x80\x7F\x7F\x7F\x7F", 6);
    cJSON *document = cJSON_Parse(text);
    free(text);
    assert_non_null(document);
    return document;
}

/* The bytes of a string, with NUL where token_lines_read() has put its mark. */
struct byte_slice token_lines_bytes(const cJSON *node, char *buffer)
{
    static const char MARK[] = "\xC0\x80\x7F\x7F\x7F\x7F";
    size_t size = 0;
    for (const char *text = node->valuestring; *text;) {
        const bool is_nul = strncmp(text, MARK, 6) == 0;
        buffer[size++] = is_nul ? '\0' : *text;
        text += is_nul ? 6 : 1;
    }
    return (struct byte_slice){ buffer, size };
}

static int64_t number(const cJSON *list, int64_t i)
{
    return (int64_t)cJSON_GetArrayItem(list, (int)i)->valuedouble;
}

void token_lines_expect(const char *name, const struct tokenizer *tokenizer, struct byte_slice text,
                        const cJSON *ids, const cJSON *offsets, const cJSON *decoded)
{
    struct arena arena;
    struct token_list list;
    struct fault fault;
    arena_init(&arena, SIZE_MAX);
    if (!tokenizer_encode(tokenizer, NULL, text, NULL, true, &arena, &list, &fault))
        fail_msg("%s: %.*s: %s", name, (int)text.size, (const char *)text.data, fault.message);
    bool equal = list.count == cJSON_GetArraySize(ids);
    int32_t *numbers = arena_calloc(&arena, (size_t)list.count + 1, sizeof *numbers);
    for (int64_t i = 0; i < list.count && equal; i++) {
        numbers[i] = list.tokens[i].id;
        equal = numbers[i] == number(ids, i)
                && (!offsets
                    || (list.tokens[i].start == number(offsets, 2 * i)
                        && list.tokens[i].end == number(offsets, 2 * i + 1)));
    }
    if (!equal)
        fail_msg("%s: other tokens of: %.*s", name, (int)text.size, (const char *)text.data);
    if (decoded) {
        struct text out;
        text_init(&out, SIZE_MAX);
        char *expected = malloc(strlen(decoded->valuestring) + 1);
        const struct byte_slice bytes = token_lines_bytes(decoded, expected);
        assert_true(tokenizer_decode(tokenizer, NULL, numbers, list.count, true, &out, &fault));
        if (out.used != bytes.size
            || (bytes.size > 0 && memcmp(out.data, bytes.data, bytes.size) != 0))
            fail_msg("%s: decoded as '%.*s'; expected '%s'", name, (int)out.used, out.data,
                     decoded->valuestring);
        free(expected);
        text_free(&out);
    }
    arena_free(&arena);
}

void token_lines_expect_ids(const struct tokenizer *tokenizer, const char *text, const char *pair,
                            const char *ids, const char *types)
{
    struct arena arena;
    struct token_list list;
    struct fault fault;
    const struct byte_slice other = { pair, pair ? strlen(pair) : 0 };
    char found[512] = "", found_types[512] = "";
    arena_init(&arena, SIZE_MAX);
    if (!tokenizer_encode(tokenizer, NULL, (struct byte_slice){ text, strlen(text) },
                          pair ? &other : NULL, true, &arena, &list, &fault))
        fail_msg("%s: %s", text, fault.message);
    for (int64_t i = 0; i < list.count; i++) {
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%d", i > 0 ? " " : "",
                 list.tokens[i].id);
        snprintf(found_types + i, sizeof found_types - (size_t)i, "%d", list.tokens[i].type);
    }
    assert_string_equal(found, ids);
    if (types)
        assert_string_equal(found_types, types);
    arena_free(&arena);
}

void token_lines_expect_decoded(const struct tokenizer *tokenizer, const int32_t *ids,
                                int64_t count, const char *expected)
{
    struct text text;
    struct fault fault;
    text_init(&text, SIZE_MAX);
    assert_true(tokenizer_decode(tokenizer, NULL, ids, count, true, &text, &fault));
    assert_int_equal(text.used, strlen(expected));
    assert_memory_equal(text.data, expected, text.used);
    text_free(&text);
}
