/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_layers.c - a config and tensors become layers, or a fault that says what is wrong. */
#include "formats/safetensors.h"
#include "model_case.h"
#include "models/model/model.h"
#include "models/store/model_open.h"
#include "test.h"

#define QKV "q_proj.weight 8x5, k_proj.weight 8x6, v_proj.weight 8x7"

/* -------------------------------------------------------- heads and widths -- */

struct settled_case {
    const char *config, *tensors;
    int64_t q_heads, kv_heads, head_dim, v_head_dim, d_query, d_key, d_value, d_out;
};

static const struct settled_case SETTLED[] = {
    { "{}", QKV, 1, 1, 8, 8, 5, 6, 7, 8 },
    { "{\"q_heads\":2}", QKV, 2, 2, 4, 4, 5, 6, 7, 8 },
    { "{\"head_dim\":2}", QKV, 4, 4, 2, 2, 5, 6, 7, 8 },
    { "{\"kv_heads\":2}", QKV, 2, 2, 4, 4, 5, 6, 7, 8 },
    { "{\"layout\":\"in_out\"}", "q_proj.weight 5x8, k_proj.weight 6x8, v_proj.weight 7x8", 1, 1, 8,
      8, 5, 6, 7, 8 },
    { "{\"q_heads\":4}", "q_proj.weight 8x5, k_proj.weight 4x5, v_proj.weight 6x5", 4, 2, 2, 3, 5,
      5, 5, 12 },
    { "{\"kv_heads\":2}", "q_proj.weight 8x5, k_proj.weight 4x5, v_proj.weight 6x5", 4, 2, 2, 3, 5,
      5, 5, 12 },
    { "{\"v_head_dim\":3,\"q_heads\":2}", "q_proj.weight 4x5, v_proj.weight 3x5", 2, 1, 2, 3, 5, 2,
      5, 6 },
    { "{\"q_heads\":2}", "q_proj.weight 8x5, k_proj.weight 8x5, o_proj.weight 9x6", 2, 2, 4, 3, 5,
      5, 6, 9 },
    { "{\"q_heads\":2,\"layout\":\"in_out\"}", "q_proj.weight 5x8, o_proj.weight 6x9", 2, 2, 4, 3,
      5, 8, 6, 9 },
    { "{}", "k_proj.weight 8x5", 1, 1, 8, 8, 8, 5, 8, 8 },
    { "{\"q_heads\":2}", "k_proj.weight 8x5", 2, 2, 4, 4, 8, 5, 8, 8 },
    { "{\"head_dim\":3}", "", 1, 1, 3, 3, 3, 3, 3, 3 },
    { "{\"head_dim\":3,\"q_heads\":4,\"kv_heads\":2,\"v_head_dim\":5}", "", 4, 2, 3, 5, 12, 6, 10,
      20 },
    { "{\"tensors\":{\"q_proj.weight\":\"a.b\",\"k_proj.weight\":\"a.b\"}}", "a.b 2x3, other 7", 1,
      1, 2, 2, 3, 3, 2, 2 },
};

TEST(settled)
{
    for (size_t i = 0; i < sizeof SETTLED / sizeof SETTLED[0]; i++) {
        const struct settled_case *c = &SETTLED[i];
        struct model *model = model_case_make(c->config, c->tensors);
        const struct model_layer *layer = &model->layers[0];
        assert_int_equal(layer->layer.q_heads, c->q_heads);
        assert_int_equal(layer->layer.kv_heads, c->kv_heads);
        assert_int_equal(layer->layer.head_dim, c->head_dim);
        assert_int_equal(layer->layer.v_head_dim, c->v_head_dim);
        assert_int_equal(layer->d_query, c->d_query);
        assert_int_equal(layer->d_key, c->d_key);
        assert_int_equal(layer->d_value, c->d_value);
        assert_int_equal(layer->d_out, c->d_out);
        assert_true(attn_layer_d_out(&layer->layer) == c->d_out);
        assert_true(layer->options.scale == attn_options_default(c->head_dim).scale);
        model_release(model);
    }
}

TEST(options)
{
    struct model *model =
        model_case_make("{\"attention\":\"dot\",\"causal\":true,\"scale\":null,\"softcap\":2.5,"
                        "\"window_left\":3,\"window_right\":0,\"chunk\":5,"
                        "\"rope\":{}}",
                        QKV ", q_proj.bias 8");
    const struct model_layer *layer = &model->layers[0];
    assert_string_equal(model->attention, "dot");
    assert_true(layer->options.scale == 1.0f && layer->options.softcap == 2.5f);
    assert_true(layer->options.causal);
    assert_true(layer->options.window_left == 3 && layer->options.window_right == 0);
    assert_true(layer->options.chunk == 5);
    assert_true(layer->layer.rope.dim == 8 && layer->layer.rope.theta == 10000.0);
    assert_false(layer->layer.rope.interleaved);
    assert_non_null(layer->layer.q_proj.bias);
    assert_null(layer->layer.k_proj.bias);
    assert_null(layer->layer.o_proj.weight);
    assert_int_equal(model->parameter_count, 8 * (5 + 6 + 7 + 1));
    assert_int_equal(model->parameter_bytes, 4 * 8 * (5 + 6 + 7 + 1));
    model_release(model);

    model = model_case_make(JSON({"scale":0,"rope":{"theta":5e5,"dim":4,"interleaved":true}}), QKV);
    layer = &model->layers[0];
    assert_true(layer->options.scale == 0.0f && !layer->options.causal);
    assert_true(layer->options.window_left == -1 && layer->options.window_right == -1);
    assert_true(layer->layer.rope.dim == 4 && layer->layer.rope.theta == 5e5);
    assert_true(layer->layer.rope.interleaved);
    model_release(model);
}

TEST(layers)
{
    struct model *model = model_case_make(
        "{\"layers\":2}", "layers.0.q_proj.weight 4x3, layers.1.q_proj.weight 6x2, unused 5");
    assert_int_equal(model->layer_count, 2);
    assert_int_equal(model->layers[0].layer.head_dim, 4);
    assert_int_equal(model->layers[1].layer.head_dim, 6);
    assert_int_equal(model->parameter_count, 24);
    model_release(model);
}

/* ----------------------------------------------------------------- faults -- */

static const struct model_refusal REFUSED[] = {
    { "", QKV, FAULT_JSON, "", "/config" },
    { "{", QKV, FAULT_JSON, "", "/config" },
    { "[]", QKV, FAULT_TYPE, "an array; expected an object", "/config" },
    { "{\"q_heads\":1,\"q_heads\":1}", QKV, FAULT_DUPLICATE, "", "/config/q_heads" },
    { "{\"q_head\":1}", QKV, FAULT_FIELD, "did you mean 'q_heads'", "/config/q_head" },
    { "{\"zebra\":1}", QKV, FAULT_FIELD, "no field 'zebra'", "/config/zebra" },
    { "{\"attention\":\"Dot\"}", QKV, FAULT_OPTION, "'Dot'", "/config/attention" },
    { "{\"attention\":\"cosine\"}", QKV, FAULT_OPTION,
      "expected scaled_dot_product, dot, general, additive or concat", "/config/attention" },
    { "{\"attention\":1}", QKV, FAULT_TYPE, "a number; expected a string", "/config/attention" },
    { "{\"layers\":0}", QKV, FAULT_OPTION, "from 1 to 1000", "/config/layers" },
    { "{\"layers\":1e9}", QKV, FAULT_OPTION, "from 1 to 1000", "/config/layers" },
    { "{\"layers\":[1]}", QKV, FAULT_TYPE, "an array", "/config/layers" },
    { "{\"q_heads\":0}", QKV, FAULT_OPTION, "q_heads is 0", "/config/q_heads" },
    { "{\"q_heads\":1.5}", QKV, FAULT_OPTION, "q_heads is 1.5", "/config/q_heads" },
    { "{\"q_heads\":\"2\"}", QKV, FAULT_TYPE, "a string", "/config/q_heads" },
    { "{\"q_heads\":null}", QKV, FAULT_TYPE, "null", "/config/q_heads" },
    { "{\"head_dim\":1e300}", QKV, FAULT_OPTION, "head_dim is 1", "/config/head_dim" },
    { "{\"causal\":1}", QKV, FAULT_TYPE, "true or false", "/config/causal" },
    { "{\"scale\":1e300}", QKV, FAULT_NONFINITE, "scale", "/config/scale" },
    { "{\"softcap\":-1}", QKV, FAULT_OPTION, "softcap is -1", "/config/softcap" },
    { "{\"window_left\":-2}", QKV, FAULT_OPTION, "window_left is -2", "/config/window_left" },
    { "{\"layout\":\"out\"}", QKV, FAULT_OPTION, "out_in or in_out", "/config/layout" },
    { "{\"rope\":7}", QKV, FAULT_TYPE, "rope is a number", "/config/rope" },
    { "{\"rope\":{\"dims\":4}}", QKV, FAULT_FIELD, "did you mean 'dim'", "/config/rope/dims" },
    { "{\"rope\":{\"dim\":3}}", QKV, FAULT_OPTION, "even", "/config/rope/dim" },
    { "{\"rope\":{\"dim\":10}}", QKV, FAULT_OPTION, "head_dim, which is 8", "/config/rope/dim" },
    { "{\"rope\":{\"theta\":0}}", QKV, FAULT_OPTION, "above 0", "/config/rope/theta" },
    { "{\"rope\":{}}", "q_proj.weight 3x3", FAULT_OPTION, "even", "/config/rope/dim" },
    { "{\"tensors\":{\"q_proj.weigth\":\"a\"}}", QKV, FAULT_FIELD, "did you mean 'q_proj.weight'",
      "/config/tensors/q_proj.weigth" },
    { "{\"layers\":2,\"tensors\":{\"q_proj.weight\":\"a\"}}", QKV, FAULT_FIELD,
      "did you mean 'layers.0.q_proj.weight'", "/config/tensors/q_proj.weight" },
    { "{\"layers\":2,\"tensors\":{\"layers.2.q_proj.weight\":\"a\"}}", QKV, FAULT_FIELD, "no field",
      "/config/tensors/layers.2.q_proj.weight" },
    { "{\"tensors\":{\"q_proj.weight\":3}}", QKV, FAULT_TYPE, "a tensor's name",
      "/config/tensors/q_proj.weight" },
    { "{\"tensors\":{\"q_proj.weight\":\"nobody\"}}", QKV, FAULT_FIELD, "'nobody'",
      "/config/tensors" },
    { "{\"model_type\":\"llama\",\"head_dim\":8}", QKV, FAULT_FIELD, "published checkpoint",
      "/config" },
    { "{\"architectures\":[\"X\"]}", QKV, FAULT_FIELD, "published checkpoint", "/config" },
    { "{}", "", FAULT_FIELD, "head_dim is missing", "/config" },
    { "{}", "v_proj.weight 4x4", FAULT_FIELD, "head_dim is missing", "/config" },
    { "{}", "query.weight 4x4", FAULT_FIELD, "none of the file's 1 tensors", "/parameters" },
    { "{\"layers\":2}", QKV, FAULT_FIELD, "layers.0.q_proj.weight", "/parameters" },
    { "{\"layers\":2}", "layers.0.q_proj.weight 4x4", FAULT_FIELD,
      "layers.1.q_proj.weight is missing", "/parameters" },
    { "{\"layers\":2}",
      "layers.0.q_proj.weight 4x4, layers.1.q_proj.weight 4x4, layers.1.o_proj.weight 4x4",
      FAULT_FIELD, "layers.0.o_proj.weight is missing", "/parameters" },
    { "{}", "q_proj.weight 4", FAULT_SHAPE, "shape [4]; expected [out, in]",
      "/parameters/q_proj.weight" },
    { "{}", "q_proj.weight 4x2x2", FAULT_SHAPE, "shape [4, 2, 2]", "/parameters/q_proj.weight" },
    { "{}", "q_proj.weight 0x4", FAULT_SHAPE, "dimensions from 1", "/parameters/q_proj.weight" },
    { "{}", "q_proj.weight 4x0", FAULT_SHAPE, "dimensions from 1", "/parameters/q_proj.weight" },
    { "{}", "q_proj.weight 4x4, q_proj.bias 3", FAULT_SHAPE, "expected [4]",
      "/parameters/q_proj.bias" },
    { "{}", "q_proj.weight 4x4, q_proj.bias 4x1", FAULT_SHAPE, "expected [4]",
      "/parameters/q_proj.bias" },
    { "{}", "q_proj.weight 4x4, k_proj.bias 4", FAULT_FIELD, "k_proj.bias", "" },
    { "{\"q_heads\":3}", QKV, FAULT_SHAPE, "expected 6 outputs (q_heads * head_dim = 3 * 2), not 8",
      "/parameters/q_proj.weight" },
    { "{\"q_heads\":3,\"head_dim\":3}", QKV, FAULT_SHAPE, "expected 9 outputs",
      "/parameters/q_proj.weight" },
    { "{\"kv_heads\":3,\"head_dim\":8}", QKV, FAULT_SHAPE, "expected 24 outputs",
      "/parameters/k_proj.weight" },
    { "{\"v_head_dim\":3}", QKV, FAULT_SHAPE, "expected 3 outputs", "/parameters/v_proj.weight" },
    { "{}", "q_proj.weight 8x5, k_proj.weight 6x5", FAULT_SHAPE, "expected 8 outputs",
      "/parameters/k_proj.weight" },
    { "{}", QKV ", o_proj.weight 3x9", FAULT_SHAPE, "expected 8 inputs",
      "/parameters/o_proj.weight" },
    { "{\"q_heads\":2,\"kv_heads\":4}", "q_proj.weight 4x2, k_proj.weight 8x2", FAULT_SHAPE,
      "a multiple of kv_heads, which is 4", "/config" },
    { "{\"q_heads\":3,\"kv_heads\":2,\"head_dim\":1}", "", FAULT_SHAPE, "a multiple of kv_heads",
      "/config" },
    { "{\"q_heads\":2147483647,\"head_dim\":2147483647}", "", FAULT_TOO_LARGE, "at most 2147483647",
      "/config" },
};

TEST(refused)
{
    model_case_expect_refused(REFUSED, sizeof REFUSED / sizeof REFUSED[0]);
}

TEST(no_config)
{
    const float one = 1;
    const struct safetensors_tensor tensor = { "q_proj.weight", 2, { 1, 1 }, &one, NULL };
    struct model *model;
    struct fault fault;
    void *bytes;
    size_t size;
    assert_true(safetensors_write(&bytes, &size, &tensor, 1, "format", "pt", &fault));
    assert_false(model_create(&model, "m", "test", bytes, size, NULL, NULL, NULL, &fault));
    assert_int_equal(fault.code, FAULT_FIELD);
    assert_non_null(strstr(fault.message, "attnd"));
    assert_true(
        model_create(&model, "m", "test", bytes, size, "{\"scale\":2}", NULL, NULL, &fault));
    assert_true(model->layers[0].options.scale == 2.0f);
    model_release(model);
    free(bytes);
}
