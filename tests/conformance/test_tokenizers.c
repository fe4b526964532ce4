/* test_tokenizers.c - ids, offsets and decoded texts of the reference implementation.
 *
 * tokenizers/NAME.json has the files of a tokenizer, and of each of its lines a text, ids, offsets
 * in bytes and the decoded text. tokenizers/steps.json has many pipelines of one step each over one
 * model: what a case says takes the place of a field of the base. */
#include "models/tokenizer/tokenizer.h"
#include "test.h"
#include "json/json.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "tests/conformance/tokenizers"

static char directory[64];

static int make_directory(void **state)
{
    strcpy(directory, "/tmp/attnd-tokenizers-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

/* Removes all files of the directory. */
static void empty_directory(void)
{
    DIR *folder = opendir(directory);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
}

static int remove_directory(void **state)
{
    empty_directory();
    return rmdir(directory);
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_base64(const char *name, const char *text)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char *bytes = malloc(strlen(text));
    size_t size = 0;
    unsigned group = 0;
    int bits = 0;
    for (; *text && *text != '='; text++) {
        group = group << 6 | (unsigned)(strchr(DIGITS, *text) - DIGITS);
        bits += 6;
        if (bits >= 8)
            bytes[size++] = (unsigned char)(group >> (bits -= 8));
    }
    write_file(name, bytes, size);
    free(bytes);
}

/* A file of a tokenizer: text, {"base64":...} or JSON. */
static void write_node(const cJSON *node)
{
    const cJSON *base64 = cJSON_GetObjectItem(node, "base64");
    if (cJSON_IsString(node)) {
        write_file(node->string, node->valuestring, strlen(node->valuestring));
    } else if (base64) {
        write_base64(node->string, base64->valuestring);
    } else {
        char *text = cJSON_PrintUnformatted(node);
        write_file(node->string, text, strlen(text));
        free(text);
    }
}

static cJSON *read_document(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "/%s", name);
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

/* The bytes of a string, with NUL where read_document() has put its mark. */
static struct byte_slice bytes_of(const cJSON *node, char *buffer)
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

static void expect_tokens(const char *name, const struct tokenizer *tokenizer,
                          struct byte_slice text, const cJSON *ids, const cJSON *offsets,
                          const cJSON *decoded)
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
        equal = numbers[i] == number(ids, i) && list.tokens[i].start == number(offsets, 2 * i)
                && list.tokens[i].end == number(offsets, 2 * i + 1);
    }
    if (!equal)
        fail_msg("%s: other tokens of: %.*s", name, (int)text.size, (const char *)text.data);
    if (decoded) {
        struct text out;
        text_init(&out, SIZE_MAX);
        char *expected = malloc(strlen(decoded->valuestring) + 1);
        const struct byte_slice bytes = bytes_of(decoded, expected);
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

static struct tokenizer *open_directory(const char *name)
{
    struct tokenizer *tokenizer = NULL;
    struct fault fault = { .message = "no file" };
    if (!tokenizer_open(&tokenizer, directory, &fault) || !tokenizer)
        fail_msg("%s: %s", name, fault.message);
    return tokenizer;
}

static void expect_file(const char *name)
{
    cJSON *document = read_document(name);
    const cJSON *node, *line;
    empty_directory();
    cJSON_ArrayForEach(node, cJSON_GetObjectItem(document, "files"))
        write_node(node);
    struct tokenizer *tokenizer = open_directory(name);
    cJSON_ArrayForEach(line, cJSON_GetObjectItem(document, "lines")) {
        const cJSON *text = cJSON_GetArrayItem(line, 0);
        char *buffer = malloc(strlen(text->valuestring) + 1);
        expect_tokens(name, tokenizer, bytes_of(text, buffer), cJSON_GetArrayItem(line, 1),
                      cJSON_GetArrayItem(line, 2), cJSON_GetArrayItem(line, 3));
        free(buffer);
    }
    tokenizer_free(tokenizer);
    cJSON_Delete(document);
}

TEST(files)
{
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "steps.json") == 0)
            continue;
        expect_file(entry->d_name);
        count++;
    }
    closedir(folder);
    assert_true(count >= 15);
}

static void expect_case(const cJSON *document, cJSON *test)
{
    static const char *const FIELDS[] = { "normalizer", "pre_tokenizer" };
    cJSON *file = cJSON_Duplicate(cJSON_GetObjectItem(document, "base"), true);
    const char *name = cJSON_GetObjectItem(test, "name")->valuestring;
    for (int i = 0; i < 2; i++)
        if (cJSON_HasObjectItem(test, FIELDS[i]))
            cJSON_ReplaceItemInObject(file, FIELDS[i], cJSON_DetachItemFromObject(test, FIELDS[i]));
    char *text = cJSON_PrintUnformatted(file);
    empty_directory();
    write_file("tokenizer.json", text, strlen(text));
    free(text);
    cJSON_Delete(file);
    struct tokenizer *tokenizer = open_directory(name);
    const cJSON *line;
    cJSON_ArrayForEach(line, cJSON_GetObjectItem(test, "lines")) {
        const cJSON *own =
            cJSON_GetArrayItem(cJSON_GetObjectItem(document, "texts"), (int)number(line, 0));
        char buffer[512];
        expect_tokens(name, tokenizer, bytes_of(own, buffer), cJSON_GetArrayItem(line, 1),
                      cJSON_GetArrayItem(line, 2), NULL);
    }
    tokenizer_free(tokenizer);
}

TEST(steps)
{
    cJSON *document = read_document("steps.json");
    cJSON *test;
    cJSON_ArrayForEach(test, cJSON_GetObjectItem(document, "cases"))
        expect_case(document, test);
    cJSON_Delete(document);
}

ALL_TESTS(make_directory, remove_directory);
