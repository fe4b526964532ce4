/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_file.c - a typed body becomes a safetensors file, or a fault with a pointer into the
 * body. */
#include "fault_expect.h"
#include "models/model/model.h"
#include "models/store/model_file.h"
#include "models/store/model_open.h"
#include "test.h"
#include "json/json.h"

struct typed_case {
    const char *text;
    enum fault_code code;
    const char *words, *pointer;
};

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

TEST(typed)
{
    static const struct typed_case CASES[] = {
        { "[]", FAULT_TYPE, "not an object", "" },
        { "{}", FAULT_FIELD, "config is missing", "" },
        { "{\"config\":{}}", FAULT_FIELD, "parameters is missing", "" },
        { "{\"config\":[],\"parameters\":{}}", FAULT_TYPE, "config is not", "/config" },
        { "{\"config\":{},\"parameters\":[]}", FAULT_TYPE, "parameters is not", "/parameters" },
        { "{\"config\":{},\"parameter\":{}}", FAULT_FIELD, "did you mean 'parameters'",
          "/parameter" },
        { "{\"config\":{\"causel\":true},\"parameters\":{}}", FAULT_FIELD, "did you mean 'causal'",
          "/config/causel" },
        { "{\"config\":{},\"parameters\":{\"q_proj.wieght\":[[1]]}}", FAULT_FIELD,
          "did you mean 'q_proj.weight'", "/parameters/q_proj.wieght" },
        { "{\"config\":{},\"parameters\":{\"a/b~c\":[[1]]}}", FAULT_FIELD, "'a/b~c'",
          "/parameters/a~1b~0c" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":1}}", FAULT_TYPE, "array of numbers",
          "/parameters/q_proj.weight" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[\"1\"]]}}", FAULT_TYPE,
          "array of numbers", "/parameters/q_proj.weight/0/0" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[null]]}}", FAULT_TYPE,
          "[0][0] is null", "/parameters/q_proj.weight/0/0" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[true]]}}", FAULT_TYPE,
          "[0][0] is true", "/parameters/q_proj.weight/0/0" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[1,2],[3]]}}", FAULT_RAGGED,
          "q_proj.weight[1]", "/parameters/q_proj.weight/1" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[1,1e400]]}}", FAULT_NONFINITE,
          "[0][1] is beyond", "/parameters/q_proj.weight/0/1" },
        { "{\"config\":{},\"parameters\":{\"q_proj.weight\":[[[1]]]}}", FAULT_SHAPE, "3 dimensions",
          "/parameters/q_proj.weight" },
    };
    void *bytes = NULL;
    size_t size;
    struct fault fault;
    struct model *model;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const struct typed_case *c = &CASES[i];
        if (type_in(c->text, &bytes, &size, &fault))
            fail_msg("%s: taken", c->text);
        fault_expect(c->text, &fault, c->code, c->words, c->pointer);
    }
    assert_true(type_in("{\"config\":{\"scale\":0.1,\"tensors\":{\"q_proj.weight\":\"W\"}},"
                        "\"parameters\":{\"W\":[[1,2],[3,0.1]]}}",
                        &bytes, &size, &fault));
    assert_true(model_create(&model, "m", "test", bytes, size, NULL, free, bytes, &fault));
    assert_true(model->layers[0].options.scale == 0.1f);
    assert_true(((const float *)model->layers[0].layer.q_proj.weight)[3] == 0.1f);
    model_release(model);
}
