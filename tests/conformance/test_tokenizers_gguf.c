/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizers_gguf.c - tokenizers in the metadata of GGUF files make the tokens of the
 * tokenizer.json that they were written from, and those of llama.cpp.
 *
 * The lines of tokenizers/ have ids, offsets and texts of Hugging Face's tokenizers 0.22.2;
 * gguf_pre.json has ids of llama.cpp. */
#include "gguf_tokenizer.h"
#include "test.h"
#include "token_lines.h"

#include <sys/stat.h>
#include <unistd.h>

/* A file of tokenizers/, and what a converter writes of it. */
static const struct written {
    const char *name, *model, *pre;
    int bos, eos, unknown; /* -1: not said */
    bool adds_bos, adds_eos;
} WRITTEN[] = {
    { "bert_uncased", "bert", "bert-bge", 2, 3, 1, true, true },
    { "gpt2", "gpt2", "gpt-2", 756, 756, -1, false, false },
    { "split_regex", "gpt2", "llama-bpe", 756, 757, -1, true, false },
    { "llama_byte_fallback", "llama", "default", 1, 2, 0, true, false },
    { "unigram_nfkc", "t5", "default", 1, 2, 0, false, true },
};

static void write_id(struct gguf_write *file, const char *key, int id)
{
    if (id >= 0)
        gguf_write_integer(file, key, 'I', id);
}

/* The charsmap of a normalizer, which is base64 in the file. */
static void write_charsmap(struct gguf_write *file, const cJSON *node)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const cJSON *map = cJSON_GetObjectItem(node, "precompiled_charsmap"), *child;
    cJSON_ArrayForEach(child, cJSON_GetObjectItem(node, "normalizers"))
        write_charsmap(file, child);
    if (!map)
        return;
    unsigned char *bytes = malloc(strlen(map->valuestring));
    int64_t size = 0;
    unsigned group = 0;
    int bits = 0;
    for (const char *text = map->valuestring; *text && *text != '='; text++) {
        group = group << 6 | (unsigned)(strchr(DIGITS, *text) - DIGITS);
        bits += 6;
        if (bits >= 8)
            bytes[size++] = (unsigned char)(group >> (bits -= 8));
    }
    gguf_write_numbers(file, "tokenizer.ggml.precompiled_charsmap", 'B', bytes, size);
    free(bytes);
}

static struct tokenizer *open_written(const struct written *written, const cJSON *root)
{
    struct gguf_write *file = gguf_write_create(3);
    struct fault fault;
    gguf_tokenizer_write(file, root, written->model, written->pre);
    write_id(file, "tokenizer.ggml.bos_token_id", written->bos);
    write_id(file, "tokenizer.ggml.eos_token_id", written->eos);
    write_id(file, "tokenizer.ggml.unknown_token_id", written->unknown);
    write_id(file, "tokenizer.ggml.seperator_token_id", written->eos);
    gguf_write_bool(file, "tokenizer.ggml.add_bos_token", written->adds_bos);
    gguf_write_bool(file, "tokenizer.ggml.add_eos_token", written->adds_eos);
    if (strcmp(written->model, "t5") == 0) {
        gguf_write_bool(file, "tokenizer.ggml.add_space_prefix", true);
        gguf_write_bool(file, "tokenizer.ggml.remove_extra_whitespaces", true);
        write_charsmap(file, cJSON_GetObjectItem(root, "normalizer"));
    }
    struct tokenizer *tokenizer = gguf_tokenizer_open(file, &fault);
    if (!tokenizer)
        fail_msg("%s: %s", written->name, fault.message);
    gguf_write_free(file);
    return tokenizer;
}

TEST(lines_of_the_reference)
{
    for (size_t i = 0; i < sizeof WRITTEN / sizeof *WRITTEN; i++) {
        char path[128];
        snprintf(path, sizeof path, "tokenizers/%s.json", WRITTEN[i].name);
        cJSON *document = token_lines_read(path);
        const cJSON *root =
            cJSON_GetObjectItem(cJSON_GetObjectItem(document, "files"), "tokenizer.json");
        struct tokenizer *tokenizer = open_written(&WRITTEN[i], root);
        const cJSON *line;
        int count = 0;
        cJSON_ArrayForEach(line, cJSON_GetObjectItem(document, "lines")) {
            const cJSON *text = cJSON_GetArrayItem(line, 0);
            char *buffer = malloc(strlen(text->valuestring) + 1);
            token_lines_expect(WRITTEN[i].name, tokenizer, token_lines_bytes(text, buffer),
                               cJSON_GetArrayItem(line, 1), cJSON_GetArrayItem(line, 2),
                               cJSON_GetArrayItem(line, 3));
            free(buffer);
            count++;
        }
        assert_int_equal(count, 68);
        tokenizer_free(tokenizer);
        cJSON_Delete(document);
    }
}

/* -------------------------------------------------------------- many lines -- */

/* Opens the tree as a tokenizer.json of a folder. */
static struct tokenizer *open_json(const cJSON *root)
{
    char directory[] = "/tmp/attnd-gguf-XXXXXX", path[64];
    struct tokenizer *tokenizer = NULL;
    struct fault fault;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    char *text = cJSON_PrintUnformatted(root);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    free(text);
    if (!tokenizer_open(&tokenizer, directory, &fault))
        fail_msg("%s", fault.message);
    unlink(path);
    rmdir(directory);
    return tokenizer;
}

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* Words, numbers, spaces, marks and characters of many scripts. */
static size_t make_line(uint64_t *state, char *line)
{
    static const char *const PARTS[] = {
        "the",
        "Hello",
        "don't",
        "WE'LL",
        "attention",
        "12345",
        "3.14",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "!",
        "...",
        "<s>",
        "[CLS]",
        "<|endoftext|>",
        "<|begin|>",
        "##ing",
        "\xE2\x96\x81",
        "na\xC3\xAFve",
        "Stra\xC3\x9F"
        "e",
        "\xD0\xBC\xD0\xB8\xD1\x80",
        "\xE4\xBD\xA0\xE5\xA5\xBD",
        "\xF0\x9F\x9A\x80",
        "e\xCC\x81",
        "\xEF\xAC\x81",
        "\xE3\x80\x80",
        "\xC2\xA0",
        "_x+=1;",
    };
    enum { PART_COUNT = sizeof PARTS / sizeof *PARTS };
    size_t size = 0;
    for (uint32_t left = draw(state, 24); left > 0; left--) {
        const char *part = PARTS[draw(state, PART_COUNT)];
        memcpy(line + size, part, strlen(part));
        size += strlen(part);
        if (draw(state, 2))
            line[size++] = ' ';
    }
    return size;
}

static void expect_same(const char *name, const struct tokenizer *ours,
                        const struct tokenizer *theirs, struct byte_slice text)
{
    struct arena arena;
    struct token_list lists[2];
    struct fault fault;
    arena_init(&arena, SIZE_MAX);
    assert_true(tokenizer_encode(ours, NULL, text, NULL, true, &arena, &lists[0], &fault));
    assert_true(tokenizer_encode(theirs, NULL, text, NULL, true, &arena, &lists[1], &fault));
    bool equal = lists[0].count == lists[1].count;
    for (int64_t i = 0; i < lists[0].count && equal; i++) {
        const struct token *a = &lists[0].tokens[i], *b = &lists[1].tokens[i];
        equal =
            a->id == b->id && a->start == b->start && a->end == b->end
            && a->is_special == b->is_special
            && strcmp(tokenizer_token_text(ours, a->id), tokenizer_token_text(theirs, b->id)) == 0;
    }
    if (!equal)
        fail_msg("%s: other tokens of: %.*s", name, (int)text.size, (const char *)text.data);
    arena_free(&arena);
}

TEST(lines_of_the_tokenizer_json)
{
    uint64_t random_state = 7;
    char line[1024];
    for (size_t i = 0; i < sizeof WRITTEN / sizeof *WRITTEN; i++) {
        char path[128];
        snprintf(path, sizeof path, "tokenizers/%s.json", WRITTEN[i].name);
        cJSON *document = token_lines_read(path);
        const cJSON *root =
            cJSON_GetObjectItem(cJSON_GetObjectItem(document, "files"), "tokenizer.json");
        struct tokenizer *ours = open_written(&WRITTEN[i], root), *theirs = open_json(root);
        for (int k = 0; k < 2000; k++)
            expect_same(WRITTEN[i].name, ours, theirs,
                        (struct byte_slice){ line, make_line(&random_state, line) });
        tokenizer_free(ours);
        tokenizer_free(theirs);
        cJSON_Delete(document);
    }
}

/* --------------------------------------------------------- pre-tokenizers -- */

static void write_list(struct gguf_write *file, const char *key, const cJSON *list)
{
    const int count = cJSON_GetArraySize(list);
    const char **texts = calloc((size_t)count, sizeof *texts);
    const cJSON *text = list->child;
    for (int i = 0; i < count; i++, text = text->next)
        texts[i] = text->valuestring;
    gguf_write_texts(file, key, texts, count);
    free(texts);
}

static void expect_pre(const cJSON *document, const char *name, const cJSON *ids)
{
    struct gguf_write *file = gguf_write_create(3);
    struct fault fault;
    gguf_write_text(file, "tokenizer.ggml.model", "gpt2");
    gguf_write_text(file, "tokenizer.ggml.pre", name);
    write_list(file, "tokenizer.ggml.tokens", cJSON_GetObjectItem(document, "tokens"));
    write_list(file, "tokenizer.ggml.merges", cJSON_GetObjectItem(document, "merges"));
    gguf_write_integer(file, "tokenizer.ggml.seperator_token_id", 'I', 0);
    gguf_write_bool(file, "tokenizer.ggml.add_bos_token", false);
    struct tokenizer *tokenizer = gguf_tokenizer_open(file, &fault);
    if (!tokenizer)
        fail_msg("%s: %s", name, fault.message);
    for (int i = 0; i < 3; i++) {
        const char *text =
            cJSON_GetArrayItem(cJSON_GetObjectItem(document, "texts"), i)->valuestring;
        const cJSON *expected = cJSON_GetArrayItem(ids, i);
        if (!cJSON_IsNull(expected))
            token_lines_expect(name, tokenizer, (struct byte_slice){ text, strlen(text) }, expected,
                               NULL, NULL);
    }
    tokenizer_free(tokenizer);
    gguf_write_free(file);
}

TEST(pre_tokenizers_of_llama_cpp)
{
    cJSON *document = token_lines_read("gguf_pre.json");
    const cJSON *answer;
    int count = 0;
    cJSON_ArrayForEach(answer, cJSON_GetObjectItem(document, "answers")) {
        char *names = strdup(cJSON_GetObjectItem(answer, "names")->valuestring), *rest = names;
        for (char *name; (name = strsep(&rest, " "));) {
            expect_pre(document, name, cJSON_GetObjectItem(answer, "ids"));
            count++;
        }
        free(names);
    }
    assert_true(count >= 80);
    cJSON_Delete(document);
}
