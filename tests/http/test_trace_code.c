/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_code.c - whole passes of decoders of program text that have their own names, CodeGen
 * and GPTBigCode (SantaCoder, StarCoder), compared with POST /v1/trace.
 *
 * Each pass is written out of the forward() of the family's modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it. */
#include "fixture.h"
#include "forward_decoder.h"
#include "forward_edits.h"
#include "test.h"

static const double EPS = 0.125;

static void check(const char *name, const char *config, const char *tensors,
                  void (*pass)(struct forward *forward))
{
    const struct decoder_case decoder = { name, config, tensors, 2, pass, NULL, 0, false, false };
    decoder_case_check(&decoder);
}

static struct rows embed(const char *name)
{
    return forward_embed(published_tensor(name, 0), decoder_tokens(), decoder_length);
}

static struct rows norm(struct rows x, const char *name, int layer)
{
    return forward_layer_norm(x, name, layer, EPS);
}

#define LINEAR(name, out, in) name ".weight " out "x" in ", " name ".bias " out ", "
#define NORM(name, size)      name ".weight " size ", " name ".bias " size ", "
#define H                     "transformer.h.#."

/* ----------------------------------------------------------------- CodeGen -- */

/* codegen/modeling_codegen.py at 00491ceeee1a, CodeGenAttention and CodeGenBlock: qkv_proj is four
 * times a part of the queries, of the values and of the keys; attention and feed-forward in
 * parallel. */
static void pass_codegen(struct forward *forward)
{
    const struct decoder_attention attention = {
        .attention = { .heads = 8, .scale = 0.5, .causal = true },
        .rotary_dim = 2,
        .theta = 10000,
        .is_every_two = true,
    };
    struct rows x = embed("transformer.wte.weight");
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, H "ln_1", layer);
        const struct rows qkv = published_linear(inputs, H "attn.qkv_proj", layer);
        const struct decoder_projections projections = { published_split(qkv, 4, 0, 8),
                                                         published_split(qkv, 4, 16, 8),
                                                         published_split(qkv, 4, 8, 8) };
        const struct rows attended =
            decoder_attend(forward, &attention, x, inputs, projections, H "attn.out_proj", layer);
        const struct rows fed =
            decoder_up_down(inputs, H "mlp.fc_in", "gelu_new", H "mlp.fc_out", layer);
        x = forward_add(forward_add(attended, fed), x);
    }
    forward->final_hidden_states = norm(x, "transformer.ln_f", 0);
    forward->logits = published_linear(forward->final_hidden_states, "lm_head", 0);
}

TEST(codegen)
{
    check("codegen",
          "{\"model_type\":\"codegen\",\"n_embd\":32,\"n_head\":8,\"n_layer\":2,\"rotary_dim\":2,"
          "\"vocab_size\":40,\"layer_norm_epsilon\":0.125}",
          "transformer.wte.weight 40x32, " NORM(H "ln_1", "32") H
          "attn.qkv_proj.weight 96x32, " H
          "attn.out_proj.weight 32x32, " LINEAR(H "mlp.fc_in", "48", "32")
              LINEAR(H "mlp.fc_out", "32", "48")
                  NORM("transformer.ln_f", "32") "lm_head.weight 40x32, lm_head.bias 40",
          pass_codegen);
}

/* -------------------------------------------------------------- GPTBigCode -- */

/* gpt_bigcode/modeling_gpt_bigcode.py at 00574544580e, GPTBigCodeAttention and GPTBigCodeBlock:
 * c_attn is all queries, one key and one value, or each head's query, key and value. */
static void pass_gpt_bigcode(struct forward *forward, int64_t kv_heads)
{
    const int64_t queries = 4 / kv_heads * 4;
    const struct decoder_attention attention = {
        .attention = { .heads = 4, .kv_heads = kv_heads, .scale = 0.5, .causal = true },
    };
    struct rows x = forward_add(
        embed("transformer.wte.weight"),
        forward_slice(published_tensor("transformer.wpe.weight", 0), 0, decoder_length));
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, H "ln_1", layer);
        const struct rows qkv = published_linear(inputs, H "attn.c_attn", layer);
        const struct decoder_projections projections = {
            published_split(qkv, kv_heads, 0, queries), published_split(qkv, kv_heads, queries, 4),
            published_split(qkv, kv_heads, queries + 4, 4)
        };
        x = forward_add(
            x, decoder_attend(forward, &attention, x, inputs, projections, H "attn.c_proj", layer));
        x = forward_add(x, decoder_up_down(norm(x, H "ln_2", layer), H "mlp.c_fc",
                                           "gelu_pytorch_tanh", H "mlp.c_proj", layer));
    }
    forward->final_hidden_states = norm(x, "transformer.ln_f", 0);
    forward->logits = forward_product(forward->final_hidden_states,
                                      published_tensor("transformer.wte.weight", 0));
}

static void pass_multi_query(struct forward *forward)
{
    pass_gpt_bigcode(forward, 1);
}

static void pass_multi_head(struct forward *forward)
{
    pass_gpt_bigcode(forward, 4);
}

#define BIGCODE_CONFIG(more)                                                                       \
    "{\"model_type\":\"gpt_bigcode\",\"n_embd\":16,\"n_head\":4,\"n_layer\":2,"                    \
    "\"n_positions\":16,\"vocab_size\":40,\"layer_norm_epsilon\":0.125" more "}"
#define BIGCODE_TENSORS(qkv)                                                                       \
    "transformer.wte.weight 40x16, transformer.wpe.weight 16x16, " NORM(H "ln_1", "16")            \
        NORM(H "ln_2", "16") LINEAR(H "attn.c_attn", qkv, "16")                                    \
            LINEAR(H "attn.c_proj", "16", "16") LINEAR(H "mlp.c_fc", "64", "16")                   \
                LINEAR(H "mlp.c_proj", "16", "64") "transformer.ln_f.weight 16, "                  \
                                                   "transformer.ln_f.bias 16"

TEST(gpt_bigcode)
{
    check("multi_query", BIGCODE_CONFIG(""), BIGCODE_TENSORS("24"), pass_multi_query);
    check("multi_head", BIGCODE_CONFIG(",\"multi_query\":false"), BIGCODE_TENSORS("48"),
          pass_multi_head);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
