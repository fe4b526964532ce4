/* model.c - the list of models. */
#include "tokenizer/pipeline.h"

/* Older files do not say the type of their model; its fields tell it. */
static const char *guess_type(const cJSON *node)
{
    if (cJSON_HasObjectItem(node, "merges"))
        return "BPE";
    if (cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(node, "vocab")))
        return "Unigram";
    return cJSON_HasObjectItem(node, "max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

bool model_read(struct pipeline_build *build, const cJSON *node, struct model *step)
{
    static const struct pipeline_type TYPES[] = {
        { "BPE", bpe_read },
        { "WordPiece", wordpiece_read },
        { "Unigram", unigram_read },
        { "WordLevel", wordlevel_read },
    };
    return pipeline_read(build, node, "model", cJSON_IsObject(node) ? guess_type(node) : NULL,
                         TYPES, sizeof TYPES / sizeof TYPES[0], step);
}
