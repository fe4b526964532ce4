/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_tokenizer.c - see gguf_tokenizer.h. */
#include "gguf_tokenizer.h"

#include "formats/gguf.h"
#include "test.h"

#define SPACE "\xE2\x96\x81"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNSCORED = -1000000 };

struct listed {
    char **texts;
    int32_t *types;
    float *scores;
    int64_t count;
};

static void put(struct listed *list, int64_t id, const char *text, int32_t type, double score)
{
    if (id >= list->count) {
        const int64_t count = id + 1;
        list->texts = reallocarray(list->texts, (size_t)count, sizeof *list->texts);
        list->types = reallocarray(list->types, (size_t)count, sizeof *list->types);
        list->scores = reallocarray(list->scores, (size_t)count, sizeof *list->scores);
        for (; list->count < count; list->count++)
            list->texts[list->count] = NULL;
    }
    free(list->texts[id]);
    list->texts[id] = strdup(text);
    list->types[id] = type;
    list->scores[id] = (float)score;
}

static bool is_byte(const char *text)
{
    return strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>';
}

static void put_vocabulary(struct listed *list, const cJSON *vocabulary)
{
    const cJSON *token;
    int64_t id = 0;
    cJSON_ArrayForEach(token, vocabulary) {
        const bool is_scored = cJSON_IsArray(token);
        const char *text = is_scored ? token->child->valuestring : token->string;
        const double score = is_scored ? token->child->next->valuedouble : UNSCORED - id;
        put(list, is_scored ? id : (int64_t)token->valuedouble, text, is_byte(text) ? BYTE : NORMAL,
            score);
        id++;
    }
}

static void put_added(struct listed *list, const cJSON *added)
{
    const cJSON *token;
    cJSON_ArrayForEach(token, added) {
        const char *text = cJSON_GetObjectItem(token, "content")->valuestring;
        const bool is_special = cJSON_IsTrue(cJSON_GetObjectItem(token, "special"));
        put(list, (int64_t)cJSON_GetObjectItem(token, "id")->valuedouble, text,
            strcmp(text, "<unk>") == 0 ? UNKNOWN
            : is_special               ? CONTROL
                                       : USER_DEFINED,
            0);
    }
}

/* A merge as "left right"; malloc'd. */
static char *merge_text(const cJSON *merge)
{
    char *text;
    if (cJSON_IsString(merge))
        return strdup(merge->valuestring);
    assert_true(asprintf(&text, "%s %s", merge->child->valuestring, merge->child->next->valuestring)
                > 0);
    return text;
}

/* Gives each token that a merge makes the merge's rank. */
static void score_merges(struct listed *list, const cJSON *merges)
{
    const cJSON *merge;
    int rank = 0;
    cJSON_ArrayForEach(merge, merges) {
        char *text = merge_text(merge), *space = strchr(text + 1, ' ');
        memmove(space, space + 1, strlen(space));
        for (int64_t id = 0; id < list->count; id++)
            if (list->scores[id] <= UNSCORED && strcmp(list->texts[id], text) == 0)
                list->scores[id] = (float)-rank;
        free(text);
        rank++;
    }
}

static void write_merges(struct gguf_write *file, const cJSON *merges)
{
    const int count = cJSON_GetArraySize(merges);
    char **texts = calloc((size_t)count + 1, sizeof *texts);
    const cJSON *merge = merges->child;
    for (int i = 0; i < count; i++, merge = merge->next)
        texts[i] = merge_text(merge);
    gguf_write_texts(file, "tokenizer.ggml.merges", (const char *const *)texts, count);
    for (int i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
}

/* Whole words get U+2581, and what continues a word loses its "##". */
static void respell(struct listed *list)
{
    for (int64_t id = 0; id < list->count; id++) {
        char *text = list->texts[id], *other;
        if (list->types[id] == CONTROL)
            continue;
        assert_true(asprintf(&other, "%s%s", strncmp(text, "##", 2) == 0 ? "" : SPACE,
                             strncmp(text, "##", 2) == 0 ? text + 2 : text)
                    >= 0);
        free(text);
        list->texts[id] = other;
    }
}

void gguf_tokenizer_write(struct gguf_write *file, const cJSON *root, const char *model,
                          const char *pre)
{
    struct listed list = { 0 };
    const cJSON *node = cJSON_GetObjectItem(root, "model"),
                *merges = cJSON_GetObjectItem(node, "merges");
    const bool is_scored = strcmp(model, "llama") == 0 || strcmp(model, "t5") == 0;
    put_vocabulary(&list, cJSON_GetObjectItem(node, "vocab"));
    put_added(&list, cJSON_GetObjectItem(root, "added_tokens"));
    if (is_scored)
        score_merges(&list, merges);
    else if (merges)
        write_merges(file, merges);
    if (strcmp(model, "bert") == 0)
        respell(&list);
    gguf_write_text(file, "tokenizer.ggml.model", model);
    if (pre)
        gguf_write_text(file, "tokenizer.ggml.pre", pre);
    gguf_write_texts(file, "tokenizer.ggml.tokens", (const char *const *)list.texts, list.count);
    gguf_write_numbers(file, "tokenizer.ggml.token_type", 'i', list.types, list.count);
    if (is_scored)
        gguf_write_numbers(file, "tokenizer.ggml.scores", 'f', list.scores, list.count);
    for (int64_t id = 0; id < list.count; id++)
        free(list.texts[id]);
    free(list.texts);
    free(list.types);
    free(list.scores);
}

/* Opens the file from bytes that are overwritten: nothing of them is kept. */
static bool open_bytes(const struct gguf_write *file, struct tokenizer **tokenizer,
                       struct fault *fault)
{
    struct gguf gguf;
    size_t size;
    void *bytes = gguf_write_bytes(file, &size);
    if (!gguf_read(&gguf, bytes, size, fault))
        fail_msg("%s", fault->message);
    const bool opened = tokenizer_open_gguf(tokenizer, &gguf, "words.gguf", fault);
    gguf_free(&gguf);
    memset(bytes, 0xA5, size);
    free(bytes);
    return opened;
}

struct tokenizer *gguf_tokenizer_open(const struct gguf_write *file, struct fault *fault)
{
    struct tokenizer *tokenizer = NULL;
    if (open_bytes(file, &tokenizer, fault))
        assert_non_null(tokenizer);
    else
        assert_true(!tokenizer && fault->message[0]);
    return tokenizer;
}

void gguf_tokenizer_expect_none(const struct gguf_write *file)
{
    struct tokenizer *tokenizer = NULL;
    struct fault fault;
    assert_true(open_bytes(file, &tokenizer, &fault));
    assert_null(tokenizer);
}
