/* tokenizer_older.c - opens a folder whose tokenizer has an older form: see older.h. */
#include "tokenizer/older.h"
#include "tokenizer/tokenizer_file.h"
#include "tokenizer/tokenizer_internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The forms, in the order in which they are looked for. */
static const struct form {
    const char *file;  /* the vocabulary's: its presence is the form's */
    const char *class; /* the file that the classes name: see older_classes.c */
    const char *merges;
    bool (*read)(struct older *older);
} FORMS[] = {
    { "vocab.txt", "vocab.txt", NULL, older_read_lines },
    { "vocab.json", "vocab.json", "merges.txt", older_read_pairs },
    { "tokenizer.model", "tokenizer.model", NULL, older_read_sentencepiece },
    { "spiece.model", "tokenizer.model", NULL, older_read_sentencepiece },
    { "sentencepiece.bpe.model", "tokenizer.model", NULL, older_read_sentencepiece },
};

enum { JSON_BYTES_MAX = 1 << 29, JSON_VALUES_MAX = 1 << 24 };

static bool build(struct tokenizer *tokenizer, struct older *older, const struct form *form)
{
    struct text text;
    struct json_document document = { 0 };
    const struct json_options options = { .nul_is_kept = true, .values_max = JSON_VALUES_MAX };
    text_init(&text, JSON_BYTES_MAX);
    const bool good = older_fill(older, &text)
                      && json_read(&document, text.data, text.used, &options, older->fault);
    text_free(&text);
    const bool built =
        good && tokenizer_build(tokenizer, form->file, document.root, &document, older->fault);
    json_free(&document);
    return built;
}

static bool read_form(struct tokenizer *tokenizer, struct older *older, const struct form *form,
                      const char *directory)
{
    if (form->merges
        && !tokenizer_file_read(directory, form->merges, &older->merges_file, &older->merges_size,
                                older->fault))
        return false;
    if (!older_config_read(&older->config, directory, older->fault))
        return false;
    older->class = older_class_find(form->class, &older->config, older->fault);
    struct fault cause = { 0 };
    struct fault *fault = older->fault;
    older->fault = &cause;
    const bool good = older->class && form->read(older) && older_read_added(older)
                      && build(tokenizer, older, form);
    older->fault = fault;
    if (good || !older->class)
        return good;
    if (cause.code == FAULT_MEMORY)
        return fault_no_memory(fault);
    const size_t length = strlen(form->file);
    const bool is_named =
        strncmp(cause.message, form->file, length) == 0 && cause.message[length] == ':';
    return fault_set(fault, cause.code, "%s%s%s", is_named ? "" : form->file, is_named ? "" : ": ",
                     cause.message);
}

void older_free(struct older *older)
{
    older_config_free(&older->config);
    free(older->vocabulary_file);
    free(older->merges_file);
    sentencepiece_free(&older->sentencepiece);
    vocabulary_free(&older->vocabulary);
    vocabulary_free(&older->added_texts);
    free(older->merges);
    free(older->scores);
    free(older->added);
    arena_free(&older->arena);
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

bool tokenizer_read_older(struct tokenizer *tokenizer, const char *directory, struct fault *fault)
{
    struct older older = { .fault = fault };
    arena_init(&older.arena, SIZE_MAX);
    bool good = true, found = false;
    for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0] && good && !found; i++) {
        good = tokenizer_file_read(directory, FORMS[i].file, &older.vocabulary_file,
                                   &older.vocabulary_size, fault);
        found = good && older.vocabulary_file;
        if (found)
            good = read_form(tokenizer, &older, &FORMS[i], directory);
    }
    older_free(&older);
    return good && (found || check_foreign(directory, fault));
}
