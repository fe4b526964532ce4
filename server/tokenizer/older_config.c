/* older_config.c - see older_config.h. */
#include "tokenizer/older_config.h"

#include "tokenizer/tokenizer_file.h"

#include <stdlib.h>

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
    struct fault cause;
    const bool is_fine = json_read(document, text, size, &options, &cause);
    free(text);
    if (!is_fine)
        return cause.code == FAULT_MEMORY
                   ? fault_no_memory(fault)
                   : fault_set(fault, cause.code, "%s: %s", name, cause.message);
    return cJSON_IsObject(document->root)
           || fault_set(fault, FAULT_TYPE, "%s is %s; expected an object", name,
                        json_kind(document, document->root));
}

bool older_config_read(struct older_config *config, const char *directory, struct fault *fault)
{
    *config = (struct older_config){ 0 };
    return read_document(&config->tokenizer, directory, "tokenizer_config.json", fault)
           && read_document(&config->special, directory, "special_tokens_map.json", fault)
           && read_document(&config->added, directory, "added_tokens.json", fault)
           && read_document(&config->model, directory, "config.json", fault);
}

void older_config_free(struct older_config *config)
{
    json_free(&config->tokenizer);
    json_free(&config->special);
    json_free(&config->added);
    json_free(&config->model);
}

const cJSON *older_config_field(const struct older_config *config, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(config->tokenizer.root, key);
}

const char *older_config_text(const cJSON *node)
{
    const cJSON *content =
        cJSON_IsObject(node) ? cJSON_GetObjectItemCaseSensitive(node, "content") : node;
    return cJSON_IsString(content) ? content->valuestring : NULL;
}

const char *older_config_token(const struct older_config *config, const char *role)
{
    const char *newer = older_config_text(older_config_field(config, role));
    const char *map =
        older_config_text(cJSON_GetObjectItemCaseSensitive(config->special.root, role));
    const bool is_newer = older_config_field(config, "added_tokens_decoder") != NULL;
    const char *first = is_newer ? newer : map;
    return first ? first : is_newer ? map : newer;
}

const char *older_config_model(const struct older_config *config, const char *key)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(config->model.root, key);
    return cJSON_IsString(node) ? node->valuestring : NULL;
}
