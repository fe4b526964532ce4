/* tokenizer_build.c - a tokenizer from a tokenizer.json. */
#include "tokenizer/added_tokens.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

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

bool tokenizer_build(struct tokenizer *tokenizer, const char *file, const cJSON *root,
                     const struct json_document *document, struct fault *fault)
{
    struct pipeline_build build = {
        .file = file,
        .document = document,
        .arena = &tokenizer->arena,
        .vocabulary = &tokenizer->vocabulary,
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

/* Puts the file's name before a message that does not have it. */
static bool name_file(struct fault *fault, const char *file)
{
    const size_t length = strlen(file);
    if (fault->code == FAULT_MEMORY
        || (strncmp(fault->message, file, length) == 0 && fault->message[length] == ':'))
        return false;
    const struct fault inner = *fault;
    return fault_set(fault, inner.code, "%s: %s", file, inner.message);
}

bool tokenizer_read_json(struct tokenizer *tokenizer, const char *text, size_t size,
                         struct fault *fault)
{
    static const char NAME[] = "tokenizer.json";
    struct json_document document;
    const struct json_options options = { .values_max = TOKENIZER_JSON_VALUES_MAX,
                                          .nul_is_kept = true };
    bool is_fine = json_read(&document, text, size, &options, fault);
    if (is_fine) {
        is_fine = tokenizer_build(tokenizer, NAME, document.root, &document, fault);
        json_free(&document);
    }
    return is_fine || name_file(fault, NAME);
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
