/* test_model.c - a config and tensors become layers, or a fault that says what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json.h"
#include "model.h"
#include "made_model.h"
#include "model_guard.h"
#include "nearest.h"
#include "safetensors.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static bool create(struct model **model, const char *config, const char *tensors, void **bytes,
                   struct fault *fault)
{
    size_t size;
    *bytes = made_model(config, tensors, 0.5f, &size);
    return model_create(model, "m", "test", *bytes, size, NULL, NULL, NULL, fault);
}

static void test_settled(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof SETTLED / sizeof SETTLED[0]; i++) {
        const struct settled_case *c = &SETTLED[i];
        struct model *model;
        struct fault fault;
        void *bytes;
        if (!create(&model, c->config, c->tensors, &bytes, &fault))
            fail_msg("%s with %s: %s", c->config, c->tensors, fault.message);
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
        free(bytes);
    }
}

static void test_options(void **state)
{
    struct model *model;
    struct fault fault;
    void *bytes;
    (void)state;
    assert_true(create(&model,
                       "{\"attention\":\"dot\",\"causal\":true,\"scale\":null,\"softcap\":2.5,"
                       "\"window_left\":3,\"window_right\":0,\"rope\":{}}",
                       QKV ", q_proj.bias 8", &bytes, &fault));
    const struct model_layer *layer = &model->layers[0];
    assert_string_equal(model->attention, "dot");
    assert_true(layer->options.scale == 1.0f && layer->options.softcap == 2.5f);
    assert_true(layer->options.causal);
    assert_true(layer->options.window_left == 3 && layer->options.window_right == 0);
    assert_true(layer->layer.rope.dim == 8 && layer->layer.rope.theta == 10000.0);
    assert_false(layer->layer.rope.interleaved);
    assert_non_null(layer->layer.q_proj.bias);
    assert_null(layer->layer.k_proj.bias);
    assert_null(layer->layer.o_proj.weight);
    assert_int_equal(model->parameter_count, 8 * (5 + 6 + 7 + 1));
    assert_int_equal(model->parameter_bytes, 4 * 8 * (5 + 6 + 7 + 1));
    model_release(model);
    free(bytes);

    assert_true(create(&model,
                       "{\"scale\":0,\"rope\":{\"theta\":5e5,\"dim\":4,\"interleaved\":true}}", QKV,
                       &bytes, &fault));
    layer = &model->layers[0];
    assert_true(layer->options.scale == 0.0f && !layer->options.causal);
    assert_true(layer->options.window_left == -1 && layer->options.window_right == -1);
    assert_true(layer->layer.rope.dim == 4 && layer->layer.rope.theta == 5e5);
    assert_true(layer->layer.rope.interleaved);
    model_release(model);
    free(bytes);
}

static void test_layers(void **state)
{
    struct model *model;
    struct fault fault;
    void *bytes;
    (void)state;
    assert_true(create(&model, "{\"layers\":2}",
                       "layers.0.q_proj.weight 4x3, layers.1.q_proj.weight 6x2, unused 5", &bytes,
                       &fault));
    assert_int_equal(model->layer_count, 2);
    assert_int_equal(model->layers[0].layer.head_dim, 4);
    assert_int_equal(model->layers[1].layer.head_dim, 6);
    assert_int_equal(model->parameter_count, 24);
    model_release(model);
    free(bytes);
}

/* ----------------------------------------------------------------- faults -- */

struct refused_case {
    const char *config, *tensors;
    enum fault_code code;
    const char *words, *pointer;
};

static const struct refused_case REFUSED[] = {
    { "", QKV, FAULT_JSON, "", "/config" },
    { "{", QKV, FAULT_JSON, "", "/config" },
    { "[]", QKV, FAULT_TYPE, "an array; expected an object", "/config" },
    { "{\"q_heads\":1,\"q_heads\":1}", QKV, FAULT_DUPLICATE, "", "/config/q_heads" },
    { "{\"q_head\":1}", QKV, FAULT_FIELD, "did you mean 'q_heads'", "/config/q_head" },
    { "{\"zebra\":1}", QKV, FAULT_FIELD, "no field 'zebra'", "/config/zebra" },
    { "{\"attention\":\"additive\"}", QKV, FAULT_OPTION, "scaled_dot_product and dot",
      "/config/attention" },
    { "{\"attention\":\"concat\"}", QKV, FAULT_OPTION, "does not compute", "/config/attention" },
    { "{\"attention\":\"general\"}", QKV, FAULT_OPTION, "does not compute", "/config/attention" },
    { "{\"attention\":\"Dot\"}", QKV, FAULT_OPTION, "'Dot'", "/config/attention" },
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

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        const struct refused_case *c = &REFUSED[i];
        struct model *model;
        struct fault fault = { .code = FAULT_NONE };
        void *bytes;
        if (create(&model, c->config, c->tensors, &bytes, &fault))
            fail_msg("%s with %s: taken", c->config, c->tensors);
        if (fault.code != c->code || !strstr(fault.message, c->words)
            || strcmp(fault.pointer, c->pointer) != 0)
            fail_msg("%s with %s: %s at '%s': %s", c->config, c->tensors,
                     fault_code_name(fault.code), fault.pointer, fault.message);
        free(bytes);
    }
}

static void test_no_config(void **state)
{
    const float one = 1;
    const struct safetensors_tensor tensor = { "q_proj.weight", 2, { 1, 1 }, &one };
    struct model *model;
    struct fault fault;
    void *bytes;
    size_t size;
    (void)state;
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

/* ----------------------------------------------------------------- dtypes -- */

/* A file of one tensor of raw bytes, 1 x count, its data at any alignment. */
static unsigned char *raw_file(const char *dtype, int64_t count, const void *data, size_t data_size,
                               size_t header_size, size_t *size)
{
    unsigned char *bytes = malloc(8 + header_size + data_size);
    char header[512];
    assert_non_null(bytes);
    const int length =
        snprintf(header, sizeof header,
                 "{\"__metadata__\":{\"attnd\":\"{\\\"layout\\\":\\\"in_out\\\"}\"},"
                 "\"q_proj.weight\":{\"dtype\":\"%s\",\"shape\":[1,%d],\"data_offsets\":[0,%zu]}}",
                 dtype, (int)count, data_size);
    assert_true(length > 0 && (size_t)length <= header_size);
    memset(bytes, 0, 8);
    bytes[0] = (unsigned char)header_size;
    bytes[1] = (unsigned char)(header_size >> 8);
    memset(bytes + 8, ' ', header_size);
    memcpy(bytes + 8, header, (size_t)length);
    memcpy(bytes + 8 + header_size, data, data_size);
    *size = 8 + header_size + data_size;
    return bytes;
}

static void expect_values(const char *dtype, const void *data, size_t data_size,
                          const float *expected, int64_t count, size_t header_size, bool is_mapped)
{
    struct model *model;
    struct fault fault;
    size_t size;
    unsigned char *bytes = raw_file(dtype, count, data, data_size, header_size, &size);
    if (!model_create(&model, "m", "test", bytes, size, NULL, NULL, NULL, &fault))
        fail_msg("%s: %s", dtype, fault.message);
    const float *got = model->layers[0].layer.q_proj.weight;
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&got[i], &expected[i], sizeof *got) != 0
            && !(isnan(got[i]) && isnan(expected[i])))
            fail_msg("%s[%d] is %g, not %g", dtype, (int)i, (double)got[i], (double)expected[i]);
    assert_string_equal(model->dtype, dtype);
    assert_int_equal(model->parameter_bytes, data_size);
    assert_int_equal((const unsigned char *)got == bytes + 8 + header_size, is_mapped);
    model_release(model);
    free(bytes);
}

static void test_dtypes(void **state)
{
    static const uint16_t F16[] = { 0x0000, 0x8000, 0x3C00, 0xC000, 0x7BFF, 0x0001,
                                    0x03FF, 0x0400, 0x7C00, 0xFC00, 0x7E00, 0x3555 };
    static const float F16_VALUES[] = { 0.0f,     -0.0f,     1.0f,       -2.0f,
                                        65504.0f, 0x1p-24f,  0x3FFp-24f, 0x1p-14f,
                                        INFINITY, -INFINITY, NAN,        0.333251953125f };
    static const uint16_t BF16[] = { 0x3F80, 0xC000, 0x0001, 0x7F80, 0x8000 };
    static const float BF16_VALUES[] = { 1.0f, -2.0f, 0x1p-133f, INFINITY, -0.0f };
    static const double F64[] = { 1.0 / 3.0, -1e300, 1e-300, 0x1p-149, 2.0 };
    static const float F64_VALUES[] = { (float)(1.0 / 3.0), -INFINITY, 0.0f, 0x1p-149f, 2.0f };
    static const float F32[] = { 1.5f, -0.0f, 1e-40f, INFINITY, 3.25f };
    (void)state;
    for (size_t header_size = 200; header_size < 208; header_size++) {
        expect_values("F16", F16, sizeof F16, F16_VALUES, 12, header_size, false);
        expect_values("BF16", BF16, sizeof BF16, BF16_VALUES, 5, header_size, false);
        expect_values("F64", F64, sizeof F64, F64_VALUES, 5, header_size, false);
        expect_values("F32", F32, sizeof F32, F32, 5, header_size, header_size % 4 == 0);
    }
    struct model *model;
    struct fault fault;
    size_t size;
    unsigned char *bytes = raw_file("I32", 5, F32, sizeof F32, 200, &size);
    assert_false(model_create(&model, "m", "test", bytes, size, NULL, NULL, NULL, &fault));
    assert_int_equal(fault.code, FAULT_DTYPE);
    assert_non_null(strstr(fault.message, "I32; a parameter is F32, F16, BF16 or F64"));
    free(bytes);
}

/* Every one of the 65536, against the definition. */
static void test_every_f16(void **state)
{
    uint16_t *halves = malloc(65536 * sizeof *halves);
    float *values = malloc(65536 * sizeof *values);
    (void)state;
    assert_true(halves && values);
    for (int i = 0; i < 65536; i++) {
        const int exponent = i >> 10 & 31, fraction = i & 1023;
        const double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                                 : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                                : ldexp(fraction, -24);
        halves[i] = (uint16_t)i;
        values[i] = (float)(i & 0x8000 ? -magnitude : magnitude);
    }
    expect_values("F16", halves, 65536 * sizeof *halves, values, 65536, 208, false);
    free(halves);
    free(values);
}

/* A tensor that many layers name is converted once: 1000 layers of 4 MB must not take 4 GB. */
static void test_shared_tensor(void **state)
{
    enum { COLUMNS = 1 << 19 };
    char *config = malloc(100000);
    size_t used, size;
    struct model *model;
    struct fault fault;
    uint16_t *halves = calloc(COLUMNS, sizeof *halves);
    (void)state;
    assert_true(config && halves);
    used = (size_t)sprintf(config, "{\"layout\":\"in_out\",\"layers\":1000,\"tensors\":{");
    for (int i = 0; i < 1000; i++)
        used += (size_t)sprintf(config + used, "%s\"layers.%d.q_proj.weight\":\"q_proj.weight\"",
                                i > 0 ? "," : "", i);
    sprintf(config + used, "}}");
    unsigned char *bytes = raw_file("F16", COLUMNS, halves, COLUMNS * sizeof *halves, 200, &size);
    assert_true(model_create(&model, "m", "test", bytes, size, config, NULL, NULL, &fault));
    assert_ptr_equal(model->layers[0].layer.q_proj.weight, model->layers[999].layer.q_proj.weight);
    model_release(model);
    free(bytes);
    free(halves);
    free(config);
}

/* ------------------------------------------------------------------ typed -- */

static bool type_in(const char *text, void **bytes, size_t *size, struct fault *fault)
{
    struct json_document document;
    const struct json_options options = { .nonfinite_allowed = false };
    if (!json_read(&document, text, strlen(text), &options, fault))
        return false;
    const bool good = model_file_from_json(bytes, size, &document, fault);
    json_free(&document);
    return good;
}

static void test_typed(void **state)
{
    static const struct refused_case CASES[] = {
        { "[]", "", FAULT_TYPE, "not an object", "" },
        { "{}", "", FAULT_FIELD, "config is missing", "" },
        { "{\"config\":{}}", "", FAULT_FIELD, "parameters is missing", "" },
        { "{\"config\":[],\"parameters\":{}}", "", FAULT_TYPE, "config is not", "/config" },
        { "{\"config\":{},\"parameters\":[]}", "", FAULT_TYPE, "parameters is not", "/parameters" },
        { "{\"config\":{},\"parameter\":{}}", "", FAULT_FIELD, "did you mean 'parameters'",
          "/parameter" },
        { "{\"config\":{\"causel\":true},\"parameters\":{}}", "", FAULT_FIELD,
          "did you mean 'causal'", "/config/causel" },
        { "{\"config\":{},\"parameters\":{\"q_proj.wieght\":[[1]]}}", "", FAULT_FIELD,
          "did you mean 'q_proj.weight'", "/parameters/q_proj.wieght" },
        { "{\"config\":{},\"parameters\":{\"a/b~c\":[[1]]}}", "", FAULT_FIELD, "'a/b~c'",
          "/parameters/a~1b~0c" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":1}}", "", FAULT_TYPE,
          "array of numbers", "/parameters/q_proj.weight" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[\"1\"]]}}", "", FAULT_TYPE,
          "array of numbers", "/parameters/q_proj.weight" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[null]]}}", "", FAULT_TYPE,
          "array of numbers", "/parameters/q_proj.weight" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[true]]}}", "", FAULT_TYPE,
          "array of numbers", "/parameters/q_proj.weight" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[1,2],[3]]}}", "", FAULT_RAGGED,
          "q_proj.weight[1]", "/parameters/q_proj.weight/1" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[1,1e400]]}}", "", FAULT_NONFINITE,
          "element 1", "/parameters/q_proj.weight" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[[1]]]}}", "", FAULT_SHAPE,
          "3 dimensions", "/parameters/q_proj.weight" },
    };
    void *bytes = NULL;
    size_t size;
    struct fault fault;
    struct model *model;
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const struct refused_case *c = &CASES[i];
        if (type_in(c->config, &bytes, &size, &fault))
            fail_msg("%s: taken", c->config);
        if (fault.code != c->code || !strstr(fault.message, c->words)
            || strcmp(fault.pointer, c->pointer) != 0)
            fail_msg("%s: %s at '%s': %s", c->config, fault_code_name(fault.code), fault.pointer,
                     fault.message);
    }
    assert_true(type_in("{\"config\":{\"scale\":0.1,\"tensors\":{\"q_proj.weight\":\"W\"}},"
                        "\"parameters\":{\"W\":[[1,2],[3,0.1]]}}",
                        &bytes, &size, &fault));
    assert_true(model_create(&model, "m", "test", bytes, size, NULL, free, bytes, &fault));
    assert_true(model->layers[0].options.scale == 0.1f);
    assert_true(model->layers[0].layer.q_proj.weight[3] == 0.1f);
    model_release(model);
}

/* --------------------------------------------------------------- built in -- */

static void test_built_in(void **state)
{
    struct model *model;
    struct fault fault;
    struct text text;
    (void)state;
    assert_true(model_create_demo(&model, &fault));
    const struct attn_linear *q_proj = &model->layers[0].layer.q_proj;
    assert_true(q_proj->in_out && q_proj->weight[2] == 2.0f && q_proj->weight[7] == 1.0f);
    assert_int_equal(model->parameter_count, 27);
    assert_true(model->built_in && !model->parameterless && !model_damaged(model));
    model_release(model_retain(model));
    text_init(&text, 100000);
    model_describe(model, &text);
    assert_true(text_finish(&text, &fault));
    cJSON *description = cJSON_ParseWithLength(text.data, text.used);
    assert_non_null(description);
    assert_string_equal(cJSON_GetObjectItem(description, "state")->valuestring, "READY");
    cJSON_Delete(description);
    text_free(&text);
    model_release(model);

    assert_true(model_create_sdpa(&model, &fault));
    assert_true(model->built_in && model->parameterless);
    assert_int_equal(model->layer_count, 1);
    model_release(model);
    model_release(NULL);
}

static void test_stories260k(void **state)
{
    struct model *model;
    struct fault fault;
    (void)state;
    if (!model_load(&model, "stories260K", "here", "examples/models/stories260K/model.safetensors",
                    "examples/models/stories260K/config.json", &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(model->layer_count, 5);
    assert_int_equal(model->parameter_count, 5 * (2 * 64 * 64 + 2 * 32 * 64));
    assert_string_equal(model->dtype, "F32");
    assert_string_equal(model->source, "here");
    for (int i = 0; i < 5; i++) {
        const struct model_layer *layer = &model->layers[i];
        assert_true(layer->layer.q_heads == 8 && layer->layer.kv_heads == 4);
        assert_true(layer->layer.head_dim == 8 && layer->layer.v_head_dim == 8);
        assert_true(layer->d_query == 64 && layer->d_key == 64);
        assert_true(layer->d_value == 64 && layer->d_out == 64);
        assert_true(layer->options.causal && layer->layer.rope.interleaved);
        assert_true(layer->layer.rope.dim == 8 && layer->layer.o_proj.out == 64);
    }
    model_release(model);
}

static void test_files(void **state)
{
    struct model *model;
    struct fault fault;
    (void)state;
    assert_false(model_load(&model, "m", "s", "no/such/file", NULL, &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    assert_false(model_load(&model, "m", "s", "tests", NULL, &fault));
    assert_non_null(strstr(fault.message, "not a regular file"));
    assert_false(model_load(&model, "m", "s", "/dev/null", NULL, &fault));
    assert_false(model_load(&model, "m", "s", "examples/models/stories260K/model.safetensors",
                            "no/such/config", &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    assert_false(model_load(&model, "m", "s", "examples/models/stories260K/model.safetensors", NULL,
                            &fault));
    assert_int_equal(fault.code, FAULT_FIELD);
}

/* ------------------------------------------------------------------ guard -- */

/* cmocka has handlers of its own while a test runs, so each test installs ours anew. */

/* The file of a served model is cut short; its parameters are then read. */
static void test_cut_short(void **state)
{
    char path[] = "/tmp/attnd-test-XXXXXX";
    struct model *model, *other;
    struct fault fault;
    struct text text;
    size_t size;
    float sum = 0;
    const int file = mkstemp(path);
    void *bytes = made_model("{}", "q_proj.weight 300x400", 2, &size);
    (void)state;
    assert_true(file >= 0);
    model_guard_install();
    made_model_write(path, bytes, size);
    assert_true(model_load(&model, "m", path, path, NULL, &fault));
    assert_true(model_load(&other, "n", "examples/models/stories260K",
                           "examples/models/stories260K/model.safetensors",
                           "examples/models/stories260K/config.json", &fault));
    assert_false(model_damaged(model));
    assert_int_equal(ftruncate(file, 8192), 0);
    const float *weight = model->layers[0].layer.q_proj.weight;
    for (int i = 300 * 400 - 1; i >= 0; i--)
        sum += weight[i];
    assert_true(model_damaged(model) && !model_damaged(other));
    assert_true(sum > 0 && sum < 2 * 8192 / 4);
    assert_true(weight[300 * 400 - 1] == 0.0f && weight[0] == 2.0f);
    text_init(&text, 100000);
    model_describe(model, &text);
    assert_true(text_finish(&text, &fault));
    assert_non_null(memmem(text.data, text.used, "UNAVAILABLE", 11));
    text_free(&text);
    model_release(model);
    model_release(other);
    close(file);
    unlink(path);
    free(bytes);
}

/* Any other SIGBUS still ends the process, as it would without the handler. */
static void test_other_faults(void **state)
{
    (void)state;
    fflush(NULL);
    model_guard_install();
    const pid_t child = fork();
    if (child == 0) {
        raise(SIGBUS);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void test_guard_table(void **state)
{
    static struct model_guard *guards[MODEL_GUARD_MAPPINGS_MAX];
    static char bytes[16];
    (void)state;
    for (int i = 0; i < MODEL_GUARD_MAPPINGS_MAX; i++) {
        guards[i] = model_guard_add(bytes, sizeof bytes);
        assert_non_null(guards[i]);
    }
    assert_null(model_guard_add(bytes, sizeof bytes));
    model_guard_remove(guards[7]);
    assert_ptr_equal(model_guard_add(bytes, sizeof bytes), guards[7]);
    for (int i = 0; i < MODEL_GUARD_MAPPINGS_MAX; i++)
        model_guard_remove(guards[i]);
    model_guard_remove(NULL);
}

/* ---------------------------------------------------------------- nearest -- */

static void test_nearest(void **state)
{
    static const char *const KNOWN[] = { "query",    "key",     "value",      "q_heads",
                                         "kv_heads", "outputs", "window_left" };
    static const char *const PAIRS[][2] = {
        { "querry", "query" },   { "qurey", "query" },
        { "Query", "query" },    { "kye", "key" },
        { "keys", "key" },       { "q_head", "q_heads" },
        { "output", "outputs" }, { "k", NULL },
        { "zebra", NULL },       { "", NULL },
        { "left", NULL },        { "windowleft", "window_left" },
        { "qheads", "q_heads" }, { "kvheads", "kv_heads" },
    };
    char longer[1000];
    (void)state;
    for (size_t i = 0; i < sizeof PAIRS / sizeof PAIRS[0]; i++) {
        const char *near = nearest_name(PAIRS[i][0], KNOWN, 7);
        if (near != PAIRS[i][1] && (!near || !PAIRS[i][1] || strcmp(near, PAIRS[i][1]) != 0))
            fail_msg("'%s' is near '%s'", PAIRS[i][0], near ? near : "nothing");
    }
    memset(longer, 'q', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_null(nearest_name(longer, KNOWN, 7));
    assert_null(nearest_name("query", KNOWN, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settled),     cmocka_unit_test(test_options),
        cmocka_unit_test(test_layers),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_config),   cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_every_f16),   cmocka_unit_test(test_shared_tensor),
        cmocka_unit_test(test_typed),       cmocka_unit_test(test_built_in),
        cmocka_unit_test(test_stories260k), cmocka_unit_test(test_files),
        cmocka_unit_test(test_cut_short),   cmocka_unit_test(test_other_faults),
        cmocka_unit_test(test_guard_table), cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
