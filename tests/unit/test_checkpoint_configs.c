/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_configs.c - the config.json of published models, whole, with all their fields.
 *
 * published_configs.json has the published config of each family, and smaller widths for the
 * tensors. Each of them loads; "unread" names objects that are of what is not mapped. A field that
 * is known to change numbers changes them or is refused. Any other known field can be left out. An
 * unknown field is refused by its name. */
#include "published.h"
#include "test.h"

#include <cjson/cJSON.h>

#define UNKNOWN "attention_twist"

static int problems, moved;

/* Prints every problem, not only the first. */
static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void complain(const char *format, ...)
{
    char text[640];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s\n", text);
    problems++;
}

static cJSON *read_configs(void)
{
    FILE *file = fopen("tests/unit/published_configs.json", "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    char *text = malloc((size_t)size);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    fclose(file);
    cJSON *root = cJSON_ParseWithLength(text, (size_t)size);
    assert_non_null(root);
    free(text);
    return root;
}

/* Replaces fields of object by the fields of from. */
static void merge(cJSON *object, const cJSON *from)
{
    for (const cJSON *node = from->child; node; node = node->next) {
        cJSON *there = cJSON_GetObjectItemCaseSensitive(object, node->string);
        if (cJSON_IsObject(node) && cJSON_IsObject(there)) {
            merge(there, node);
            continue;
        }
        cJSON_DeleteItemFromObjectCaseSensitive(object, node->string);
        assert_true(cJSON_AddItemToObject(object, node->string, cJSON_Duplicate(node, true)));
    }
}

static void write_tensors(char *text, size_t size, const cJSON *list)
{
    size_t used = 0;
    for (const cJSON *node = list->child; node; node = node->next)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                 node->valuestring);
    assert_true(used > 0 && used < size);
}

/* ----------------------------------------------------------------- answers -- */

/* What all layers of a model give, one after the other. */
struct answers {
    double *numbers;
    size_t count;
};

static void add_answers(struct answers *answers)
{
    *answers = (struct answers){ .numbers = NULL };
    for (int64_t layer = 0; layer < published_model()->layer_count; layer++) {
        if (published_model()->layers[layer].lacks_attention)
            continue;
        const struct rows input = published_input(published_model()->layers[layer].d_query);
        const struct rows answer = published_compute(layer, input, input);
        const size_t count = (size_t)(answer.count * answer.columns);
        answers->numbers =
            realloc(answers->numbers, (answers->count + count) * sizeof *answers->numbers);
        assert_non_null(answers->numbers);
        memcpy(answers->numbers + answers->count, answer.data, count * sizeof *answer.data);
        answers->count += count;
    }
}

/* Whether the tensors that are open answer the same with this config; *is_made says whether they
 * make a model with it. */
static bool is_same(const struct answers *before, const cJSON *config, bool *is_made,
                    struct fault *fault)
{
    struct answers after;
    char *text = cJSON_PrintUnformatted(config);
    assert_non_null(text);
    *is_made = published_reopen(text, fault);
    free(text);
    if (!*is_made)
        return false;
    add_answers(&after);
    const bool same =
        after.count == before->count
        && memcmp(after.numbers, before->numbers, after.count * sizeof *after.numbers) == 0;
    free(after.numbers);
    return same;
}

/* ------------------------------------------------------------------ fields -- */

static void check_changes(const char *name, const struct answers *before, const cJSON *config,
                          const cJSON *changes)
{
    for (const cJSON *node = changes->child; node; node = node->next) {
        struct fault fault;
        bool is_made;
        cJSON *changed = cJSON_Duplicate(config, true), *value = cJSON_Duplicate(node, true);
        cJSON_DeleteItemFromObjectCaseSensitive(changed, node->string);
        assert_true(cJSON_AddItemToObject(changed, node->string, value));
        if (is_same(before, changed, &is_made, &fault))
            complain("%s: %s changes nothing and is taken", name, node->string);
        cJSON_Delete(changed);
    }
}

/* Every other field can be left out, because it changes nothing. */
static void check_rest(const char *name, const struct answers *before, const cJSON *config,
                       const cJSON *changes, const cJSON *small)
{
    for (const cJSON *node = config->child; node; node = node->next) {
        struct fault fault;
        bool is_made;
        if (strcmp(node->string, "model_type") == 0
            || cJSON_GetObjectItemCaseSensitive(changes, node->string)
            || cJSON_GetObjectItemCaseSensitive(small, node->string))
            continue;
        cJSON *rest = cJSON_Duplicate(config, true);
        cJSON_DeleteItemFromObjectCaseSensitive(rest, node->string);
        if (!is_same(before, rest, &is_made, &fault))
            complain("%s: without %s it is %s", name, node->string,
                     is_made ? "another model" : fault.message);
        cJSON_Delete(rest);
    }
}

/* Moves a field of config, if it is there, into an object under the same name. */
static void move_field(cJSON *config, const char *name, cJSON *object)
{
    cJSON *field = cJSON_DetachItemFromObjectCaseSensitive(config, name);
    if (field)
        assert_true(cJSON_AddItemToObject(object, name, field));
}

/* rope_parameters, in which transformers 5 saves what config says of the rotary embedding:
 * standardize_rope_params() of modeling_rope_utils.py. Where layers with a window have their own
 * theta, an object for each type of layers. */
static cJSON *rope_parameters_of(cJSON *config)
{
    cJSON *scaling = cJSON_DetachItemFromObjectCaseSensitive(config, "rope_scaling");
    cJSON *local = cJSON_DetachItemFromObjectCaseSensitive(config, "rope_local_base_freq");
    cJSON *parameters = cJSON_IsObject(scaling) ? scaling : cJSON_CreateObject();
    if (parameters != scaling)
        cJSON_Delete(scaling);
    if (!cJSON_GetObjectItemCaseSensitive(parameters, "type")
        && !cJSON_GetObjectItemCaseSensitive(parameters, "rope_type"))
        assert_non_null(cJSON_AddStringToObject(parameters, "rope_type", "default"));
    move_field(config, "rope_theta", parameters);
    move_field(config, "partial_rotary_factor", parameters);
    if (!local)
        return parameters;
    cJSON *types = cJSON_CreateObject(), *sliding = cJSON_CreateObject();
    assert_true(cJSON_AddItemToObject(types, "full_attention", parameters)
                && cJSON_AddItemToObject(types, "sliding_attention", sliding)
                && cJSON_AddItemToObject(sliding, "rope_theta", local)
                && cJSON_AddStringToObject(sliding, "rope_type", "default"));
    return types;
}

/* A config.json that has its rotary embedding in rope_parameters makes the same model. */
static void check_rope_parameters(const char *name, const struct answers *before,
                                  const cJSON *config)
{
    struct fault fault;
    bool is_made;
    if (!cJSON_GetObjectItemCaseSensitive(config, "rope_theta")
        || !cJSON_GetObjectItemCaseSensitive(config, "model_type")) /* a params.json */
        return;
    cJSON *newer = cJSON_Duplicate(config, true);
    assert_true(cJSON_AddItemToObject(newer, "rope_parameters", rope_parameters_of(newer)));
    if (!is_same(before, newer, &is_made, &fault))
        complain("%s: with rope_parameters it is %s", name,
                 is_made ? "another model" : fault.message);
    cJSON_Delete(newer);
    moved++;
}

static void expect_unknown(const char *name, const struct answers *before, cJSON *config,
                           cJSON *object)
{
    struct fault fault;
    bool is_made;
    assert_non_null(cJSON_AddNumberToObject(object, UNKNOWN, 3));
    if (is_same(before, config, &is_made, &fault) || is_made)
        complain("%s: %s of '%s' is taken", name, UNKNOWN, object->string ? object->string : "");
    if (!strstr(fault.message, UNKNOWN) || fault.code != FAULT_FIELD
        || !strstr(fault.pointer, UNKNOWN))
        complain("%s: %s at '%s'", name, fault.message, fault.pointer);
    for (int neutral = 0; neutral < 4; neutral++) {
        cJSON_DeleteItemFromObjectCaseSensitive(object, UNKNOWN);
        cJSON *values[] = { cJSON_CreateNull(), cJSON_CreateFalse(), cJSON_CreateObject(),
                            cJSON_CreateArray() };
        for (int i = 0; i < 4; i++)
            if (i != neutral)
                cJSON_Delete(values[i]);
        assert_true(cJSON_AddItemToObject(object, UNKNOWN, values[neutral]));
        if (strncmp(object->string ? object->string : "", "rope", 4) != 0
            && !is_same(before, config, &is_made, &fault))
            complain("%s: a neutral %s counts", name, UNKNOWN);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(object, UNKNOWN);
}

/* Whether unread, a list of names, has it. NULL: no. */
static bool is_unread(const cJSON *unread, const char *object)
{
    const cJSON *name = NULL;
    cJSON_ArrayForEach(name, unread) {
        if (strcmp(name->valuestring, object) == 0)
            return true;
    }
    return false;
}

/* An unknown field, in the config and in each of its objects that are read. */
static void check_unknown(const char *name, const struct answers *before, cJSON *config,
                          const cJSON *unread)
{
    static const char *const READ[] = { "text_config",        "vision_config", "text_config_dict",
                                        "vision_config_dict", "attn_config",   "rope_scaling",
                                        "rope_parameters" };
    expect_unknown(name, before, config, config);
    for (size_t i = 0; i < sizeof READ / sizeof READ[0]; i++) {
        char other[32];
        cJSON *object = cJSON_GetObjectItemCaseSensitive(config, READ[i]);
        snprintf(other, sizeof other, "%s_dict", READ[i]);
        if (cJSON_IsObject(object) && !is_unread(unread, READ[i])
            && !cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(config, other)))
            expect_unknown(name, before, config, object);
    }
}

TEST(configs)
{
    static char tensors[8192];
    cJSON *root = read_configs();
    const cJSON *lists = cJSON_GetObjectItemCaseSensitive(root, "tensors");
    const cJSON *model;
    int count = 0;
    cJSON_ArrayForEach(model, cJSON_GetObjectItemCaseSensitive(root, "models")) {
        const char *name = cJSON_GetObjectItemCaseSensitive(model, "name")->valuestring;
        const cJSON *small = cJSON_GetObjectItemCaseSensitive(model, "small");
        const cJSON *changes = cJSON_GetObjectItemCaseSensitive(model, "changes");
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(
            lists, cJSON_GetObjectItemCaseSensitive(model, "tensors")->valuestring);
        cJSON *config = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(model, "config"), true);
        struct answers before;
        write_tensors(tensors, sizeof tensors, list);
        merge(config, small);
        char *text = cJSON_PrintUnformatted(config);
        published_open(text, tensors, cJSON_GetObjectItemCaseSensitive(model, "layers")->valueint,
                       "F32");
        add_answers(&before);
        check_changes(name, &before, config, changes);
        check_rest(name, &before, config, changes, small);
        check_rope_parameters(name, &before, config);
        check_unknown(name, &before, config, cJSON_GetObjectItemCaseSensitive(model, "unread"));
        published_close();
        free(before.numbers);
        free(text);
        cJSON_Delete(config);
        count++;
    }
    assert_true(count >= 60 && moved >= 25);
    assert_int_equal(problems, 0);
    cJSON_Delete(root);
}
