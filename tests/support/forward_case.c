/* SPDX-License-Identifier: Apache-2.0 */
/* forward_case.c - see forward_case.h. */
#include "forward_case.h"
#include "test.h"

enum { NAME_BYTES = 160 };

const struct model_forward *forward_case_open(const char *config, const char *tensors, int layers)
{
    published_open(config, tensors, layers, "F32");
    if (!published_model()->forward)
        fail_msg("%s: %s", config, published_model()->forward_reason);
    assert_null(published_model()->forward_reason);
    return published_model()->forward;
}

void forward_case_refused(const char *config, const char *tensors, int layers, const char *words)
{
    published_open(config, tensors, layers, "F32");
    const struct model *model = published_model();
    if (model->forward)
        fail_msg("%s has a pass; expected '%s'", config, words);
    if (!strstr(model->forward_reason, words))
        fail_msg("%s: %s; expected '%s'", config, model->forward_reason, words);
    published_close();
}

void forward_case_expect(const void *numbers, const char *name, int layer)
{
    const struct rows rows = published_tensor(name, layer);
    const float *floats = numbers;
    assert_non_null(numbers);
    for (int64_t i = 0; i < rows.count * rows.columns; i++)
        if (floats[i] != (float)rows.data[i])
            fail_msg("%s of layer %d is not what the pass has", name, layer);
}

void forward_case_expect_linear(const struct attn_linear *linear, const char *name, int layer,
                                int64_t out, int64_t in)
{
    char whole[NAME_BYTES];
    assert_int_equal(linear->out, out);
    assert_int_equal(linear->in, in);
    assert_int_equal(linear->dtype, ATTN_F32);
    snprintf(whole, sizeof whole, "%s.weight", name);
    forward_case_expect(linear->weight, whole, layer);
    snprintf(whole, sizeof whole, "%s.bias", name);
    if (linear->bias)
        forward_case_expect(linear->bias, whole, layer);
}

void forward_case_expect_norm(const struct attn_norm *norm, const char *name, int layer, double eps,
                              bool is_centred)
{
    char whole[NAME_BYTES];
    assert_true(norm->eps == eps);
    assert_int_equal(norm->is_centred, is_centred);
    assert_int_equal(norm->scope, ATTN_NORM_ROW);
    snprintf(whole, sizeof whole, "%s.weight", name);
    forward_case_expect(norm->weight, whole, layer);
    snprintf(whole, sizeof whole, "%s.bias", name);
    if (norm->bias)
        forward_case_expect(norm->bias, whole, layer);
}
