/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_open.c - a tokenizer from the files of a folder: a tokenizer.json, or a legacy form. */
#include "formats/foreign_form.h"
#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/legacy.h"
#include "models/tokenizer/tokenizer_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ------------------------------------------------------------------- files -- */

static bool read_all(int file, const char *name, char *bytes, size_t size, struct fault *fault)
{
    size_t used = 0;
    while (used < size) {
        const ssize_t count = read(file, bytes + used, size - used);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return fault_set(fault, FAULT_STORAGE, "%s: cannot be read: %s", name,
                             count < 0 ? strerror(errno) : "it became shorter");
        used += (size_t)count;
    }
    return true;
}

static bool read_file(int file, const char *name, char **bytes, size_t *size, struct fault *fault)
{
    struct stat state;
    if (fstat(file, &state) != 0 || !S_ISREG(state.st_mode))
        return fault_set(fault, FAULT_STORAGE, "%s: is not a regular file", name);
    if (state.st_size > TOKENIZER_FILE_BYTES_MAX)
        return fault_set(fault, FAULT_TOO_LARGE, "%s: has %lld bytes; expected at most %d", name,
                         (long long)state.st_size, TOKENIZER_FILE_BYTES_MAX);
    *size = (size_t)state.st_size;
    *bytes = malloc(*size + 1);
    if (!*bytes)
        return fault_no_memory(fault);
    (*bytes)[*size] = '\0';
    struct foreign_form foreign;
    if (read_all(file, name, *bytes, *size, fault)
        && (!foreign_form_of_bytes(*bytes, *size, &foreign)
            || fault_set(fault, FAULT_BINARY, "%s: is %s: %s", name, foreign.form, foreign.advice)))
        return true;
    free(*bytes);
    *bytes = NULL;
    return false;
}

bool tokenizer_file_read(const char *directory, const char *name, char **bytes, size_t *size,
                         struct fault *fault)
{
    *bytes = NULL;
    *size = 0;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return fault_set(fault, FAULT_STORAGE, "%s: the path is too long", name);
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat link;
    if (file < 0 && errno == ENOENT && lstat(path, &link) == 0)
        return fault_set(fault, FAULT_STORAGE,
                         "%s: is a link that leads nowhere: put the file there that it stands for",
                         name);
    if (file < 0)
        return errno == ENOENT || errno == ENOTDIR
               || (!fault_from_shortage(fault, errno)
                   && fault_set(fault, FAULT_STORAGE, "%s: cannot be opened: %s", name,
                                strerror(errno)));
    const bool is_fine = read_file(file, name, bytes, size, fault);
    close(file);
    return is_fine;
}

/* ---------------------------------------------------------- tokenizer.json -- */

enum {
    TOKENIZER_JSON_VALUES_MAX = 1 << 22, /* a vocabulary of 2^18 and its merges take 2^21 */
    TOKENIZER_ARENA_BYTES_MAX = 1 << 30
};

static bool read_version(struct pipeline_build *build, const cJSON *root)
{
    static const struct step_field FIELD = { STEP_VALUE("version", STEP_STRING),
                                             .is_optional = true };
    struct byte_slice version = { "1.0", 3 };
    return pipeline_fields(build, root, "the file", &FIELD, 1, &version)
           && (strcmp(version.data, "1.0") == 0
               || pipeline_fail(build, "the file", "version is '%.20s'; expected '1.0'",
                                (const char *)version.data));
}

/* The node of a step; NULL: the file has none. */
static const cJSON *step_node(const cJSON *root, const char *key)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(root, key);
    return cJSON_IsNull(node) ? NULL : node;
}

static bool read_steps(struct pipeline_build *build, struct tokenizer *tokenizer, const cJSON *root)
{
    const struct {
        const char *key;
        bool (*read)(struct pipeline_build *build, const cJSON *node, struct step *step);
        struct step *step;
    } steps[] = {
        { "normalizer", normalizer_read, &tokenizer->normalizer },
        { "pre_tokenizer", pre_tokenizer_read, &tokenizer->pre_tokenizer },
        { "post_processor", post_processor_read, &tokenizer->post_processor },
        { "decoder", decoder_read, &tokenizer->decoder },
    };
    const cJSON *node = step_node(root, "model");
    if (!node)
        return pipeline_fail(build, "the file", "model is missing");
    if (!model_read(build, node, &tokenizer->model))
        return false;
    tokenizer->vocabulary_end = tokenizer->vocabulary.id_end;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if ((node = step_node(root, steps[i].key)) && !steps[i].read(build, node, steps[i].step))
            return false;
    node = NULL;
    if (step_node(root, "added_tokens")
        && !(node = pipeline_array(build, root, "the file", "added_tokens")))
        return false;
    return added_tokens_read(build, node, &tokenizer->normalizer, &tokenizer->added);
}

/* Builds the pipeline from the tree of a tokenizer.json. */
static bool build_tree(struct tokenizer *tokenizer, const char *file, const cJSON *root,
                       const struct json_document *document, struct model_lists *lists,
                       struct fault *fault)
{
    struct pipeline_build build = {
        .file = file,
        .document = document,
        .arena = &tokenizer->arena,
        .vocabulary = &tokenizer->vocabulary,
        .lists = lists,
        .fault = fault,
    };
    tokenizer->file = file;
    const bool is_fine =
        (cJSON_IsObject(root) || pipeline_fail(&build, "the file", "is not an object"))
        && read_version(&build, root) && read_steps(&build, tokenizer, root);
    tokenizer->regexes = build.regexes;
    tokenizer->regex_count = build.regex_count;
    return is_fine;
}

bool tokenizer_build(struct tokenizer *tokenizer, const char *file, const cJSON *root,
                     const struct json_document *document, struct fault *fault)
{
    return build_tree(tokenizer, file, root, document, NULL, fault);
}

bool tokenizer_name_file(struct fault *fault, const char *file)
{
    const size_t length = strlen(file);
    return strncmp(fault->message, file, length) == 0 && fault->message[length] == ':'
               ? false
               : fault_name_file(fault, file);
}

bool tokenizer_read_json(struct tokenizer *tokenizer, const char *text, size_t size,
                         struct fault *fault)
{
    static const char NAME[] = "tokenizer.json";
    struct json_document document;
    const struct json_options options = { .values_max = TOKENIZER_JSON_VALUES_MAX,
                                          .nul_is_kept = true };
    if (size == 0)
        return fault_set(fault, FAULT_JSON, "%s: is empty", NAME);
    bool is_fine = json_read(&document, text, size, &options, fault);
    if (is_fine) {
        is_fine = tokenizer_build(tokenizer, NAME, document.root, &document, fault);
        json_free(&document);
    }
    return is_fine || tokenizer_name_file(fault, NAME);
}

struct tokenizer *tokenizer_new(void)
{
    struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer)
        arena_init(&tokenizer->arena, TOKENIZER_ARENA_BYTES_MAX);
    return tokenizer;
}

void tokenizer_free(struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    for (int64_t i = 0; i < tokenizer->regex_count; i++)
        regex_free(tokenizer->regexes[i]);
    free(tokenizer->regexes);
    vocabulary_free(&tokenizer->vocabulary);
    arena_free(&tokenizer->arena);
    free(tokenizer);
}

/* ------------------------------------------------------------ legacy forms -- */

/* The forms, in the order in which they are looked for. */
static const struct form {
    const char *file;  /* the vocabulary's: its presence is the form's */
    const char *class; /* the file that the classes name: see legacy_classes.c */
    const char *merges;
    bool (*read)(struct legacy *legacy);
} FORMS[] = {
    { "vocab.txt", "vocab.txt", NULL, legacy_read_lines },
    { "vocab.json", "vocab.json", "merges.txt", legacy_read_pairs },
    { "tokenizer.model", "tokenizer.model", NULL, legacy_read_sentencepiece },
    { "spiece.model", "tokenizer.model", NULL, legacy_read_sentencepiece },
    { "sentencepiece.bpe.model", "tokenizer.model", NULL, legacy_read_sentencepiece },
    { "spm.model", "tokenizer.model", NULL, legacy_read_sentencepiece },
};

enum { JSON_BYTES_MAX = 1 << 29, JSON_VALUES_MAX = 1 << 24 };

bool tokenizer_build_legacy(struct tokenizer *tokenizer, struct legacy *legacy, const char *file,
                            struct model_lists *lists)
{
    struct text text;
    struct json_document document = { 0 };
    const struct json_options options = { .nul_is_kept = true, .values_max = JSON_VALUES_MAX };
    text_init(&text, JSON_BYTES_MAX);
    const bool good = legacy_write(legacy, &text)
                      && json_read(&document, text.data, text.used, &options, legacy->fault);
    text_free(&text);
    const bool built =
        good && build_tree(tokenizer, file, document.root, &document, lists, legacy->fault);
    json_free(&document);
    return built;
}

static bool read_document(struct json_document *document, const char *directory, const char *name,
                          struct fault *fault)
{
    char *text;
    size_t size;
    if (!tokenizer_file_read(directory, name, &text, &size, fault))
        return false;
    if (!text)
        return true;
    const struct json_options options = { .nonfinite_allowed = true };
    const bool is_fine = json_read(document, text, size, &options, fault);
    free(text);
    if (!is_fine)
        return fault_name_file(fault, name);
    return cJSON_IsObject(document->root)
           || fault_set(fault, FAULT_TYPE, "%s is %s; expected an object", name,
                        json_kind(document, document->root));
}

static bool read_config(struct legacy_config *config, const char *directory, struct fault *fault)
{
    *config = (struct legacy_config){ 0 };
    return read_document(&config->tokenizer, directory, "tokenizer_config.json", fault)
           && read_document(&config->special, directory, "special_tokens_map.json", fault)
           && read_document(&config->added, directory, "added_tokens.json", fault)
           && read_document(&config->model, directory, "config.json", fault);
}

static bool read_form(struct tokenizer *tokenizer, struct legacy *legacy, const struct form *form,
                      const char *directory)
{
    if (form->merges
        && !tokenizer_file_read(directory, form->merges, &legacy->merges_file, &legacy->merges_size,
                                legacy->fault))
        return false;
    if (!read_config(&legacy->config, directory, legacy->fault))
        return false;
    legacy->class = legacy_class_find(form->class, &legacy->config, legacy->fault);
    return legacy->class
           && ((form->read(legacy) && legacy_read_added(legacy)
                && tokenizer_build_legacy(tokenizer, legacy, form->file, NULL))
               || tokenizer_name_file(legacy->fault, form->file));
}

/* Whether the folder has no file of a form that is not read; else the fault names it. */
static bool check_foreign(const char *directory, struct fault *fault)
{
    static const char *const FILES[] = { "tekken.json", "tiktoken.model" };
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        char path[PATH_MAX];
        struct stat status;
        const int length = snprintf(path, sizeof path, "%s/%s", directory, FILES[i]);
        if (length < (int)sizeof path && stat(path, &status) == 0)
            return fault_set(fault, FAULT_LOADING,
                             "%s: this form of tokenizer is not read, and there is no file of "
                             "another: put the tokenizer.json of the same model beside it",
                             FILES[i]);
    }
    return true;
}

static bool read_legacy(struct tokenizer *tokenizer, const char *directory, struct fault *fault)
{
    struct legacy legacy = { .fault = fault };
    arena_init(&legacy.arena, SIZE_MAX);
    bool good = true, found = false;
    for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0] && good && !found; i++) {
        good = tokenizer_file_read(directory, FORMS[i].file, &legacy.vocabulary_file,
                                   &legacy.vocabulary_size, fault);
        found = good && legacy.vocabulary_file;
        if (found)
            good = read_form(tokenizer, &legacy, &FORMS[i], directory);
    }
    legacy_free(&legacy);
    return good && (found || check_foreign(directory, fault));
}

/* ------------------------------------------------------------------ folder -- */

static bool read_folder(struct tokenizer *tokenizer, const char *directory, struct fault *fault)
{
    char *text;
    size_t size;
    if (!tokenizer_file_read(directory, "tokenizer.json", &text, &size, fault))
        return false;
    if (!text)
        return read_legacy(tokenizer, directory, fault);
    const bool is_fine = tokenizer_read_json(tokenizer, text, size, fault);
    free(text);
    return is_fine;
}

bool tokenizer_open(struct tokenizer **tokenizer, const char *directory, struct fault *fault)
{
    *tokenizer = NULL;
    struct tokenizer *made = tokenizer_new();
    if (!made)
        return fault_no_memory(fault);
    const bool is_fine = read_folder(made, directory, fault);
    if (is_fine && made->model.type)
        *tokenizer = made;
    else
        tokenizer_free(made);
    return is_fine;
}
