/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_parameters.c - tensors of each dtype, at each alignment, as the floats they mean. */
#include "models/model/model.h"
#include "models/store/model_open.h"
#include "number.h"
#include "test.h"

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
    const struct attn_linear *q_proj = &model->layers[0].layer.q_proj;
    for (int64_t i = 0; i < count; i++) {
        const float got = (float)number_get(q_proj->weight, q_proj->dtype, i);
        if (memcmp(&got, &expected[i], sizeof got) != 0 && !(isnan(got) && isnan(expected[i])))
            fail_msg("%s[%d] is %g, not %g", dtype, (int)i, (double)got, (double)expected[i]);
    }
    assert_string_equal(model->dtype, dtype);
    assert_int_equal(model->parameter_bytes, data_size);
    assert_int_equal((const unsigned char *)q_proj->weight == bytes + 8 + header_size, is_mapped);
    model_release(model);
    free(bytes);
}

TEST(dtypes)
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
    for (size_t header_size = 200; header_size < 208; header_size++) {
        expect_values("F16", F16, sizeof F16, F16_VALUES, 12, header_size, header_size % 2 == 0);
        expect_values("BF16", BF16, sizeof BF16, BF16_VALUES, 5, header_size, header_size % 2 == 0);
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

/* Each of the 65536 values, compared with the definition. A tensor at an odd address is
 * converted. */
TEST(every_f16)
{
    uint16_t *halves = malloc(65536 * sizeof *halves);
    float *values = malloc(65536 * sizeof *values);
    assert_true(halves && values);
    for (int i = 0; i < 65536; i++) {
        const int exponent = i >> 10 & 31, fraction = i & 1023;
        const double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                                 : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                                : ldexp(fraction, -24);
        halves[i] = (uint16_t)i;
        values[i] = (float)(i & 0x8000 ? -magnitude : magnitude);
    }
    expect_values("F16", halves, 65536 * sizeof *halves, values, 65536, 207, false);
    free(halves);
    free(values);
}

/* A tensor that many layers name is converted only once: 1000 layers with 4 MB each must not
 * take 4 GB. */
TEST(shared_tensor)
{
    enum { COLUMNS = 1 << 19 };
    char *config = malloc(100000);
    size_t used, size;
    struct model *model;
    struct fault fault;
    uint16_t *halves = calloc(COLUMNS, sizeof *halves);
    assert_true(config && halves);
    used = (size_t)sprintf(config, "{\"layout\":\"in_out\",\"layers\":1000,\"tensors\":{");
    for (int i = 0; i < 1000; i++)
        used += (size_t)sprintf(config + used, "%s\"layers.%d.q_proj.weight\":\"q_proj.weight\"",
                                i > 0 ? "," : "", i);
    sprintf(config + used, "}}");
    unsigned char *bytes = raw_file("F16", COLUMNS, halves, COLUMNS * sizeof *halves, 201, &size);
    assert_true(model_create(&model, "m", "test", bytes, size, config, NULL, NULL, &fault));
    assert_ptr_equal(model->layers[0].layer.q_proj.weight, model->layers[999].layer.q_proj.weight);
    model_release(model);
    free(bytes);
    free(halves);
    free(config);
}
