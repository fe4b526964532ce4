/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_scores.c - models of the score functions general, additive and concat: their
 * parameters become layers, or a fault that says what is wrong. */
#include "model_case.h"
#include "models/model/model_layers.h"
#include "test.h"

#define GENERAL  "{\"attention\":\"general\"}"
#define ADDITIVE "{\"attention\":\"additive\"}"
#define CONCAT   "{\"attention\":\"concat\"}"
#define PAIR     "q_proj.weight 8x5, k_proj.weight 8x6"

/* -------------------------------------------------------------------- widths -- */

struct settled_case {
    const char *config, *tensors;
    int64_t head_dim, v_head_dim, d_query, d_key, d_value, d_out; /* -1 and v_head_dim 0: open */
    int64_t parameter_count;
};

static const struct settled_case SETTLED[] = {
    { GENERAL, "score.weight 5x6", 6, 0, 5, 6, -1, -1, 30 },
    { GENERAL, "score.weight 1x1, v_proj.weight 4x3", 1, 4, 1, 1, 3, 4, 13 },
    { "{\"attention\":\"general\",\"layout\":\"in_out\"}", "score.weight 5x6, o_proj.weight 4x3", 6,
      4, 5, 6, 4, 3, 42 },
    { ADDITIVE, PAIR ", score.weight 8", 8, 0, 5, 6, -1, -1, 96 },
    { ADDITIVE, PAIR ", score.weight 1x8, q_proj.bias 8, k_proj.bias 8", 8, 0, 5, 6, -1, -1, 112 },
    { ADDITIVE, PAIR ", score.weight 8x1, v_proj.weight 4x7, o_proj.weight 3x4", 8, 4, 5, 6, 7, 3,
      136 },
    { "{\"attention\":\"additive\",\"layout\":\"in_out\",\"v_head_dim\":2,\"q_heads\":1,"
      "\"head_dim\":8}",
      "q_proj.weight 5x8, k_proj.weight 6x8, score.weight 8", 8, 2, 5, 6, 2, 2, 96 },
    { CONCAT, "concat_proj.weight 8x11, concat_proj.bias 8, score.weight 8", 8, 0, -1, -1, -1, -1,
      104 },
    { "{\"attention\":\"concat\",\"layout\":\"in_out\"}",
      "concat_proj.weight 11x8, score.weight 8, v_proj.weight 7x4", 8, 4, -1, -1, 7, 4, 124 },
    { "{\"attention\":\"additive\",\"tensors\":{\"score.weight\":\"w_v.weight\","
      "\"q_proj.weight\":\"W_q.weight\",\"k_proj.weight\":\"W_k.weight\"}}",
      "W_q.weight 8x5, W_k.weight 8x6, w_v.weight 1x8", 8, 0, 5, 6, -1, -1, 96 },
};

TEST(settled)
{
    for (size_t i = 0; i < sizeof SETTLED / sizeof SETTLED[0]; i++) {
        const struct settled_case *c = &SETTLED[i];
        struct model *model = model_case_make(c->config, c->tensors);
        const struct model_layer *layer = &model->layers[0];
        assert_int_equal(layer->layer.q_heads, 1);
        assert_int_equal(layer->layer.kv_heads, 1);
        assert_int_equal(layer->layer.head_dim, c->head_dim);
        assert_int_equal(layer->layer.v_head_dim, c->v_head_dim);
        assert_int_equal(layer->d_query, c->d_query);
        assert_int_equal(layer->d_key, c->d_key);
        assert_int_equal(layer->d_value, c->d_value);
        assert_int_equal(layer->d_out, c->d_out);
        assert_true(layer->options.scale == 1.0f);
        assert_int_equal(model->parameter_count, c->parameter_count);
        model_release(model);
    }
}

TEST(options)
{
    struct model *model =
        model_case_make("{\"attention\":\"additive\",\"causal\":true,\"scale\":0.5,\"softcap\":2,"
                        "\"window_left\":3}",
                        PAIR ", score.weight 8");
    assert_string_equal(model->attention, "additive");
    assert_true(model->layers[0].options.scale == 0.5f);
    assert_true(model->layers[0].options.softcap == 2.0f);
    assert_true(model->layers[0].options.causal);
    assert_int_equal(model->layers[0].options.window_left, 3);
    model_release(model);
}

/* ---------------------------------------------------------- widths of a call -- */

struct fit_case {
    const char *config, *tensors;
    struct model_widths widths;
    int64_t d_query, d_key, d_value, d_out; /* 0: refused */
};

#define CONCAT_11 "concat_proj.weight 8x11, score.weight 8"

static const struct fit_case FITS[] = {
    { CONCAT, CONCAT_11, { 5, 6, 6 }, 5, 6, 6, 6 },
    { CONCAT, CONCAT_11, { 1, 10, 3 }, 1, 10, 3, 3 },
    { CONCAT, CONCAT_11, { 0, 6, 6 }, 5, 6, 6, 6 },
    { CONCAT, CONCAT_11, { 4, 0, 0 }, 4, 7, 7, 7 },
    { CONCAT, CONCAT_11, { 0, 0, 0 }, 1, 10, 10, 10 },
    { CONCAT, CONCAT_11, { 5, 5, 5 }, 0, 0, 0, 0 },
    { CONCAT, CONCAT_11, { 0, 11, 11 }, 0, 0, 0, 0 },
    { CONCAT, CONCAT_11, { 12, 0, 0 }, 0, 0, 0, 0 },
    { CONCAT, CONCAT_11 ", v_proj.weight 2x9", { 5, 6, 9 }, 5, 6, 9, 2 },
    { ADDITIVE, PAIR ", score.weight 8", { 5, 6, 3 }, 5, 6, 3, 3 },
    { ADDITIVE, PAIR ", score.weight 8", { 5, 0, 0 }, 5, 6, 6, 6 },
    { GENERAL, "score.weight 5x6, o_proj.weight 4x3", { 5, 6, 9 }, 5, 6, 3, 4 },
};

TEST(fits)
{
    for (size_t i = 0; i < sizeof FITS / sizeof FITS[0]; i++) {
        const struct fit_case *c = &FITS[i];
        struct model_layer fitted;
        struct fault fault = { .code = FAULT_NONE };
        struct model *model = model_case_make(c->config, c->tensors);
        assert_int_equal(model_scores_fit(&fitted, model, 0, &c->widths, &fault), c->d_query > 0);
        if (c->d_query > 0) {
            assert_int_equal(fitted.d_query, c->d_query);
            assert_int_equal(fitted.d_key, c->d_key);
            assert_int_equal(fitted.d_value, c->d_value);
            assert_int_equal(fitted.d_out, c->d_out);
            assert_int_equal(attn_layer_d_out(&fitted.layer), c->d_out);
        } else {
            assert_int_equal(fault.code, FAULT_SHAPE);
            assert_non_null(strstr(fault.message, "takes 11 in both together"));
        }
        model_release(model);
    }
}

/* -------------------------------------------------------------------- faults -- */

static const struct model_refusal REFUSED[] = {
    { GENERAL, "", FAULT_FIELD, "score.weight is missing", "/parameters" },
    { GENERAL, "q_proj.weight 8x5", FAULT_FIELD, "score.weight [d_query, d_key]", "/parameters" },
    { GENERAL, "score.weight 5", FAULT_SHAPE, "shape [5]; expected [d_query, d_key]",
      "/parameters/score.weight" },
    { GENERAL, "score.weight 5x0", FAULT_SHAPE, "dimensions from 1", "/parameters/score.weight" },
    { GENERAL, "score.weight 5x6, score.bias 1", FAULT_FIELD, "score takes no bias",
      "/parameters" },
    { ADDITIVE, PAIR, FAULT_FIELD, "score.weight is missing; additive attention takes",
      "/parameters" },
    { ADDITIVE, "q_proj.weight 8x5, score.weight 8", FAULT_FIELD, "k_proj.weight is missing",
      "/parameters" },
    { ADDITIVE, "k_proj.weight 8x5, score.weight 8", FAULT_FIELD, "q_proj.weight is missing",
      "/parameters" },
    { ADDITIVE, PAIR ", score.weight 7", FAULT_SHAPE, "expected [8]", "/parameters/score.weight" },
    { ADDITIVE, PAIR ", score.weight 2x4", FAULT_SHAPE, "shape [2, 4]; expected [p]",
      "/parameters/score.weight" },
    { ADDITIVE, PAIR ", score.weight 8x1x1", FAULT_SHAPE, "shape [8, 1, 1]; expected [p]",
      "/parameters/score.weight" },
    { ADDITIVE, "q_proj.weight 8x5, k_proj.weight 7x5, score.weight 8", FAULT_SHAPE,
      "expected 8 outputs", "/parameters/k_proj.weight" },
    { "{\"attention\":\"additive\",\"q_heads\":2}", PAIR ", score.weight 8", FAULT_SHAPE,
      "q_heads is 2; expected 1", "/config/q_heads" },
    { "{\"attention\":\"additive\",\"kv_heads\":2}", PAIR ", score.weight 8", FAULT_SHAPE,
      "kv_heads is 2; expected 1", "/config/kv_heads" },
    { "{\"attention\":\"additive\",\"head_dim\":4}", PAIR ", score.weight 8", FAULT_SHAPE,
      "head_dim is 4; expected 8", "/config/head_dim" },
    { "{\"attention\":\"additive\",\"rope\":{}}", PAIR ", score.weight 8", FAULT_OPTION,
      "no rotary embedding", "/config/rope" },
    { "{\"attention\":\"additive\",\"v_head_dim\":3}", PAIR ", score.weight 8, v_proj.weight 4x4",
      FAULT_SHAPE, "expected 3 outputs", "/parameters/v_proj.weight" },
    { "{\"attention\":\"additive\",\"tensors\":{\"concat_proj.weight\":\"a\"}}",
      PAIR ", score.weight 8", FAULT_FIELD, "no field", "/config/tensors/concat_proj.weight" },
    { "{\"attention\":\"additive\",\"tensors\":{\"score.wieght\":\"a\"}}", PAIR ", score.weight 8",
      FAULT_FIELD, "did you mean 'score.weight'", "/config/tensors/score.wieght" },
    { CONCAT, "score.weight 8", FAULT_FIELD, "concat_proj.weight is missing", "/parameters" },
    { CONCAT, "concat_proj.weight 8x11", FAULT_FIELD, "[p, d_key + d_query]", "/parameters" },
    { CONCAT, "concat_proj.weight 8x1, score.weight 8", FAULT_SHAPE, "2 inputs or more",
      "/parameters/concat_proj.weight" },
    { CONCAT, "concat_proj.weight 8x11, score.weight 11", FAULT_SHAPE, "expected [8]",
      "/parameters/score.weight" },
    { "{\"attention\":\"concat\",\"layers\":2}",
      "layers.0.concat_proj.weight 8x11, layers.0.score.weight 8, layers.1.concat_proj.weight 8x11",
      FAULT_FIELD, "layers.1.score.weight is missing", "/parameters" },
};

TEST(refused)
{
    model_case_expect_refused(REFUSED, sizeof REFUSED / sizeof REFUSED[0]);
}
