/* SPDX-License-Identifier: Apache-2.0 */
/* forward_bert.c - see forward_bert.h. */
#include "forward_bert.h"

#include "forward_block.h"

#include <math.h>
#include <stdio.h>

struct bert_names {
    char text[8][96];
};

/* The names of BertLayer. */
static void name_bert(struct forward_block *block, struct bert_names *names, const char *begin)
{
    static const char *const ENDS[] = { "attention.self.query",
                                        "attention.self.key",
                                        "attention.self.value",
                                        "attention.output.dense",
                                        "attention.output.LayerNorm",
                                        "intermediate.dense",
                                        "output.dense",
                                        "output.LayerNorm" };
    for (int i = 0; i < 8; i++)
        snprintf(names->text[i], sizeof names->text[i], "%s%s", begin, ENDS[i]);
    block->self.q = names->text[0];
    block->self.k = names->text[1];
    block->self.v = names->text[2];
    block->self.output = names->text[3];
    block->self.norm = names->text[4];
    block->up = names->text[5];
    block->down = names->text[6];
    block->norm = names->text[7];
}

struct rows forward_bert_embeddings(const char *begin, const int *ids, const int *types,
                                    const int *positions, double eps)
{
    char name[4][96];
    static const char *const ENDS[] = { "word_embeddings.weight", "token_type_embeddings.weight",
                                        "position_embeddings.weight", "LayerNorm" };
    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof name[i], "%sembeddings.%s", begin, ENDS[i]);
    const struct rows words = forward_embed(published_tensor(name[0], 0), ids, FORWARD_BERT_TOKENS);
    const struct rows kinds =
        forward_embed(published_tensor(name[1], 0), types, FORWARD_BERT_TOKENS);
    const struct rows places =
        forward_embed(published_tensor(name[2], 0), positions, FORWARD_BERT_TOKENS);
    return forward_layer_norm(forward_add(forward_add(words, kinds), places), name[3], 0, eps);
}

struct forward forward_bert(const struct forward_bert *model)
{
    struct forward want = { .layer_count = 0 };
    const int64_t heads = model->heads ? model->heads : FORWARD_BERT_HEADS;
    struct forward_block block = {
        .self = { .kind = "self", .of = { .heads = heads } },
        .activation = model->activation,
        .eps = model->eps,
    };
    struct bert_names names;
    char layers[96], project[96];
    snprintf(layers, sizeof layers, "%sencoder.layer.#.", model->begin);
    snprintf(project, sizeof project, "%sembeddings_project", model->begin);
    name_bert(&block, &names, layers);
    struct rows x = forward_bert_embeddings(model->begin, model->ids, model->types,
                                            model->positions, model->eps);
    if (x.columns == 8)
        x = published_linear(x, project, 0);
    block.self.of.scale = 1 / sqrt((double)(x.columns / heads));
    for (int layer = 0; layer < (model->layers ? model->layers : FORWARD_BERT_LAYERS); layer++)
        x = forward_block_run(&want, &block, x, FORWARD_NONE, layer);
    want.final_hidden_states = x;
    return want;
}
