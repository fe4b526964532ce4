/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizers.c - ids, offsets and decoded texts of the reference implementation.
 *
 * tokenizers/NAME.json has the files of a tokenizer, and of each of its lines a text, ids, offsets
 * in bytes and the decoded text. tokenizers/steps.json has many pipelines of one step each over one
 * model: what a case says takes the place of a field of the base. */
#include "models/tokenizer/tokenizer.h"
#include "test.h"
#include "token_lines.h"

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
    char path[512];
    snprintf(path, sizeof path, "tokenizers/%s", name);
    cJSON *document = token_lines_read(path);
    const cJSON *node, *line;
    empty_directory();
    cJSON_ArrayForEach(node, cJSON_GetObjectItem(document, "files"))
        write_node(node);
    struct tokenizer *tokenizer = open_directory(name);
    cJSON_ArrayForEach(line, cJSON_GetObjectItem(document, "lines")) {
        const cJSON *text = cJSON_GetArrayItem(line, 0);
        char *buffer = malloc(strlen(text->valuestring) + 1);
        token_lines_expect(name, tokenizer, token_lines_bytes(text, buffer),
                           cJSON_GetArrayItem(line, 1), cJSON_GetArrayItem(line, 2),
                           cJSON_GetArrayItem(line, 3));
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
        const cJSON *own = cJSON_GetArrayItem(cJSON_GetObjectItem(document, "texts"),
                                              (int)cJSON_GetArrayItem(line, 0)->valuedouble);
        char buffer[512];
        token_lines_expect(name, tokenizer, token_lines_bytes(own, buffer),
                           cJSON_GetArrayItem(line, 1), cJSON_GetArrayItem(line, 2), NULL);
    }
    tokenizer_free(tokenizer);
}

TEST(steps)
{
    cJSON *document = token_lines_read("tokenizers/steps.json");
    cJSON *test;
    cJSON_ArrayForEach(test, cJSON_GetObjectItem(document, "cases"))
        expect_case(document, test);
    cJSON_Delete(document);
}

ALL_TESTS(make_directory, remove_directory);
