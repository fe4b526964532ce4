/* model_vocabulary.c - see model_vocabulary.h. */
#include "tokenizer/model_vocabulary.h"

#include <math.h>
#include <stdlib.h>

bool model_vocabulary_add(struct pipeline_build *build, const char *where, struct byte_slice text,
                          int64_t id)
{
    struct fault fault;
    if (vocabulary_add(build->vocabulary, text.data, text.size, id, &fault))
        return true;
    if (fault.code == FAULT_MEMORY)
        return fault_no_memory(build->fault);
    return pipeline_fail(build, where, "%s", fault.message);
}

bool model_vocabulary_read(struct pipeline_build *build, const cJSON *node, const char *where)
{
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(node, "vocab");
    if (!cJSON_IsObject(tokens))
        return pipeline_fail(build, where, "vocab is %s; expected an object of tokens and ids",
                             json_kind(build->document, tokens));
    const cJSON *token;
    cJSON_ArrayForEach(token, tokens)
    {
        struct byte_slice text;
        if (!json_string_read(token->string, build->arena, &text))
            return fault_no_memory(build->fault);
        const double id = token->valuedouble;
        if (!cJSON_IsNumber(token) || !(fabs(id) < 0x1p53) || id != (double)(int64_t)id)
            return pipeline_fail(build, where, "vocab.%s is %s; expected an id", token->string,
                                 json_kind(build->document, token));
        if (!model_vocabulary_add(build, where, text, (int64_t)id))
            return false;
    }
    return true;
}

bool model_vocabulary_trie(struct pipeline_build *build, struct trie *trie)
{
    const struct vocabulary *vocabulary = build->vocabulary;
    struct trie_entry *entries =
        reallocarray(NULL, (size_t)vocabulary->id_end + 1, sizeof *entries);
    if (!entries)
        return fault_no_memory(build->fault);
    int64_t count = 0;
    for (int64_t id = 0; id < vocabulary->id_end; id++) {
        const struct byte_slice text = vocabulary_text(vocabulary, id);
        if (text.data && text.size > 0)
            entries[count++] = (struct trie_entry){ text, (int32_t)id };
    }
    const bool built = trie_build(trie, entries, count, build->arena, build->fault);
    free(entries);
    return built;
}
