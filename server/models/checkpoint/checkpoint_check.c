/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_check.c - the lists of what is known: fields that change no attention, and tensors
 * that quantisation writes. */
#include "models/checkpoint/checkpoint.h"

#include "base/dtype.h"
#include "models/checkpoint/checkpoint_fields.h"

#include <fnmatch.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 160, VALUE_BYTES = 64, FP8_BLOCK_MAX = 65536 };

/* ------------------------------------------------------------- quantisation -- */

/* Most quantised checkpoints say so in config.json. Older ones say so in another file, and are
 * known by the tensors that they have in place of a weight: packed integers, and their scales. The
 * message names the method, for a complaint about a weight's shape would look like a mistake in the
 * file. */

#define REMEDY                                                                                     \
    "expected " DTYPE_NUMBERS " parameters; take the model that it was made from, or "             \
    "dequantise it and save it as safetensors"

/* The method that config.json names; NULL: none. Mistral's own params.json and MLX call the object
 * quantization. */
static const char *quantisation_of(const cJSON *root)
{
    const cJSON *node = checkpoint_find_object(root, "quantization_config|quantization");
    if (!node || !node->child)
        return NULL;
    const cJSON *method = cJSON_GetObjectItemCaseSensitive(node, "quant_method");
    if (cJSON_IsString(method))
        return method->valuestring;
    /* The first releases of bitsandbytes did not name the method. */
    return cJSON_GetObjectItemCaseSensitive(node, "load_in_8bit")
                   || cJSON_GetObjectItemCaseSensitive(node, "load_in_4bit")
               ? "bitsandbytes"
               : "not said";
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name), ending_length = strlen(ending);
    return length >= ending_length && strcmp(name + length - ending_length, ending) == 0;
}

/* The first tensor that only a method of quantisation writes, and which method; NULL: none. */
static const char *find_quantised(const struct model_tensors *tensors, const char **method)
{
    static const struct {
        const char *ending, *method;
    } ENDINGS[] = {
        { ".qweight", "GPTQ or AWQ" },
        { ".qzeros", "GPTQ or AWQ" },
        { ".SCB", "bitsandbytes, 8 bits" },
        { ".weight.absmax", "bitsandbytes, 4 bits" },
        { ".weight.quant_map", "bitsandbytes, 4 bits" },
        { ".weight_packed", "compressed-tensors" },
    };
    for (int64_t i = 0; i < tensors->entry_count; i++) {
        const char *name = tensors->entries[i].name;
        for (size_t j = 0; j < sizeof ENDINGS / sizeof ENDINGS[0]; j++)
            if (ends_with(name, ENDINGS[j].ending)) {
                *method = ENDINGS[j].method;
                return name;
            }
    }
    return NULL;
}

/* FP8 as DeepSeek and Qwen publish it: a scale for each block of a matrix. What it says of
 * activations changes no parameter: they are not rounded here. */
static bool read_fp8(struct checkpoint *checkpoint, struct fault *fault)
{
    const cJSON *node = checkpoint_find_object(checkpoint->config.root, "quantization_config");
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(node, "fmt");
    const struct json_numbers *size = json_numbers_of(
        &checkpoint->config, cJSON_GetObjectItemCaseSensitive(node, "weight_block_size"));
    bool good = (!format || (cJSON_IsString(format) && strcmp(format->valuestring, "e4m3") == 0))
                && size && size->rank == 1 && size->count == 2;
    for (int i = 0; good && i < 2; i++) {
        good = size->values[i] >= 1 && size->values[i] <= FP8_BLOCK_MAX
               && size->values[i] == floorf(size->values[i]);
        checkpoint->fp8_block[i] = good ? (int64_t)size->values[i] : 0;
    }
    return good
           || fault_set_at(fault, "/config/quantization_config", FAULT_DTYPE,
                           "the checkpoint is quantised (quant_method 'fp8') in a way that is not "
                           "read here; expected fmt 'e4m3' and weight_block_size, the rows and "
                           "columns of a block of weights, as [128, 128]");
}

/* Whether the family's row has MXFP4. */
static bool takes_mxfp4(const struct checkpoint *checkpoint)
{
    return checkpoint->stack_count > 0 && checkpoint->stacks[0].pass.stacked_may_be_mxfp4;
}

bool checkpoint_check_quantised(struct checkpoint *checkpoint, const struct model_tensors *tensors,
                                struct fault *fault)
{
    const char *method = quantisation_of(checkpoint->config.root);
    if (method && strcmp(method, "fp8") == 0)
        return read_fp8(checkpoint, fault);
    if (method && strcmp(method, "mxfp4") == 0 && takes_mxfp4(checkpoint))
        return true;
    if (method)
        return fault_set_at(fault, "/config/quantization_config", FAULT_DTYPE,
                            "the checkpoint is quantised (quant_method '%.40s'); " REMEDY, method);
    const char *tensor = find_quantised(tensors, &method);
    return !tensor
           || fault_set_at(fault, "/parameters", FAULT_DTYPE,
                           "the checkpoint is quantised (%s: it has a tensor '%.100s'); " REMEDY,
                           method, tensor);
}

/* ------------------------------------------------------------------- fields -- */

/* The rows of a family say which fields are read: their members name them. "attn_config.alibi" is a
 * field of an object. Where an object itself is named, such as rope_scaling, the code that reads
 * the object checks its fields. */

/* Fields of any config.json that change no attention, as shell patterns: those of transformers'
 * PreTrainedConfig, in the versions 2 to 5, and others that published models have. */
static const char IGNORED[] =
    /* What the model is, and which software wrote it. */
    "model_type|architectures|auto_map|name|name_or_path|_name_or_path|_commit_hash|*_version|"
    "torch_dtype|dtype|language|license|task_specific_params|finetuning_task|problem_type|"
    "sentence_transformers|sbert_ce_default_activation_function|matryoshka_dimensions|"
    "custom_pipelines|transformers.js_config|tokenizer_*|unsloth_*|"
    /* Tokens, and what answers are about. */
    "*token_id|*token_ids|*token_index|*_token|vocab_size|*_vocab_size|prefix|id2label|label2id|"
    "num_labels|_num_labels|classifier_*|summary_*|label_smoothing*|"
    /* The rest of a layer, and how long a text may be. */
    "hidden_act|hidden_activation|activation_function|activation|intermediate_size|*ffn_dim|"
    "ffn_hidden_size|d_ff|mlp_bias|layer_norm_eps|layer_norm_epsilon|rms_norm_eps|norm_eps|"
    "max_position_embeddings|n_positions|n_ctx|seq_length|max_seq_len|max_seq_length|"
    "max_sequence_length|model_max_length|chunk_size_feed_forward|"
    /* Biases, which the tensors of a layer must agree with in any case. */
    "attention_bias|qkv_bias|use_qkv_bias|"
    /* Training. */
    "*dropout*|*_pdrop|*layerdrop|drop_path_rate|init_*|initializer_*|gradient_checkpointing|"
    "pretraining_tp|use_bfloat16|torchscript|tf_legacy_loss|xla_device|*loss_weight|*_loss_coef|"
    "neftune_*|"
    /* How a model is run, and what it answers. */
    "use_cache|cache_implementation|*attn_implementation*|use_flash_attn*|_flash_attn*|output_*|"
    "return_dict*|use_return_dict|tie_*|is_encoder_decoder|is_decoder|add_cross_attention|"
    "cross_attention_hidden_size|"
    /* How a text is made with it. */
    "do_sample|max_length|min_length|max_new_tokens|num_beams|num_beam_groups|temperature|top_k|"
    "top_p|typical_p|*_penalty|*no_repeat_ngram_size|bad_words_ids|num_return_sequences|"
    "early_stopping|remove_invalid_values|suppress_tokens|begin_suppress_tokens|"
    "forced_decoder_ids|generation_config";

/* Fields that are read for every layer, and for one with a rotary embedding. */
static const char READ[] = "is_causal|layer_types|quantization_config|quantization";
static const char ROTARY[] =
    "rope_theta|rope_scaling|rope_parameters|original_max_position_embeddings";

/* A section of config.json, which some of the family's rows read. name NULL: the top of
 * config.json, where the names of sections are known fields too. */
struct section {
    const struct checkpoint *checkpoint;
    const char *name;
    const cJSON *node;
};

/* ------------------------------------------------------------------- lists -- */

/* Finds the entry of a list, "a|b_*=3|c", that names path; with below, one that names a field of
 * the object at path. Returns what follows the name, "|c" or "=3|c"; NULL: there is none. */
static const char *find_entry(const char *list, const char *path, bool below)
{
    char entry[PATH_BYTES];
    const size_t path_length = strlen(path);
    while (list && *list) {
        const size_t name_length = strcspn(list, "|=");
        snprintf(entry, sizeof entry, "%.*s", (int)name_length, list);
        if (below ? strncmp(entry, path, path_length) == 0 && entry[path_length] == '.'
                  : fnmatch(entry, path, 0) == 0)
            return list + name_length;
        list += strcspn(list, "|");
        list += *list == '|';
    }
    return NULL;
}

static bool is_same_section(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Whether one of a row's fields names path; with below, a field of the object at path. */
static bool list_names(const char *const *fields, size_t count, const char *path, bool below)
{
    for (size_t i = 0; i < count; i++)
        if (find_entry(fields[i], path, below))
            return true;
    return false;
}

_Static_assert(offsetof(struct checkpoint_stack, ignored)
                       - offsetof(struct checkpoint_stack, fields)
                   == sizeof(((struct checkpoint_stack *)0)->fields) - sizeof(char *),
               "fields");
_Static_assert(offsetof(struct checkpoint_pass, reads) - offsetof(struct checkpoint_pass, fields)
                   == sizeof(((struct checkpoint_pass *)0)->fields) - sizeof(char *),
               "fields");

#define LIST_NAMES(row, path, below)                                                               \
    list_names((row)->fields, sizeof(row)->fields / sizeof(row)->fields[0], path, below)

/* Whether a row of the section names path; with below, a field of the object at path. */
static bool is_named(const struct section *section, const char *path, bool below)
{
    const struct checkpoint *checkpoint = section->checkpoint;
    for (int i = 0; i < checkpoint->stack_count; i++) {
        const struct checkpoint_stack *row = &checkpoint->stacks[i];
        if (!section->name && row->section
            && (find_entry(row->section, path, below) || find_entry(row->ignored, path, below)))
            return true;
        if (!is_same_section(row->section, section->name))
            continue;
        if (LIST_NAMES(row, path, below) || LIST_NAMES(&row->pass, path, below))
            return true;
        if (row->theta && row->theta[0] != '=' && find_entry(ROTARY, path, below))
            return true;
    }
    return find_entry(READ, path, below);
}

/* The value that a row of the section expects at path, "=3|..."; NULL: no row expects one. */
static const char *find_expected(const struct section *section, const char *path)
{
    for (int i = 0; i < section->checkpoint->stack_count; i++) {
        const struct checkpoint_stack *row = &section->checkpoint->stacks[i];
        const char *value = is_same_section(row->section, section->name)
                                ? find_entry(row->expected, path, false)
                                : NULL;
        if (value)
            return value;
    }
    return NULL;
}

/* ------------------------------------------------------------------ values -- */

static bool is_neutral(const struct json_document *document, const cJSON *node)
{
    const struct json_numbers *numbers = json_numbers_of(document, node);
    if (numbers)
        return numbers->count == 0;
    return cJSON_IsNull(node) || cJSON_IsFalse(node)
           || (cJSON_IsString(node) && !node->valuestring[0])
           || ((cJSON_IsObject(node) || cJSON_IsArray(node)) && !node->child);
}

static void write_value(char value[VALUE_BYTES], const struct json_document *document,
                        const cJSON *node)
{
    if (cJSON_IsNumber(node))
        snprintf(value, VALUE_BYTES, "%.9g", node->valuedouble);
    else if (cJSON_IsString(node))
        snprintf(value, VALUE_BYTES, "'%.40s'", node->valuestring);
    else if (cJSON_IsBool(node))
        snprintf(value, VALUE_BYTES, "%s", cJSON_IsTrue(node) ? "true" : "false");
    else
        snprintf(value, VALUE_BYTES, "%s", json_kind(document, node));
}

/* Whether node has the value before the "|" of "3|...". */
static bool is_value(const cJSON *node, const char *expected)
{
    char text[VALUE_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(expected, "|"), expected);
    if (cJSON_IsNumber(node)) {
        char *end;
        const double number = strtod(text, &end);
        return end != text && !*end && node->valuedouble == number;
    }
    return cJSON_IsString(node) ? strcmp(node->valuestring, text) == 0
           : cJSON_IsTrue(node)
               ? strcmp(text, "true") == 0
               : cJSON_IsNull(node) || (cJSON_IsFalse(node) && strcmp(text, "false") == 0);
}

/* ------------------------------------------------------------------ walking -- */

/* "/config/text_config/attn_config/alibi" */
static void write_pointer(char pointer[FAULT_POINTER_MAX], const cJSON *section, const char *path)
{
    const size_t before =
        (size_t)snprintf(pointer, FAULT_POINTER_MAX, "/config%s%s/", section->string ? "/" : "",
                         section->string ? section->string : "");
    snprintf(pointer + before, FAULT_POINTER_MAX - before, "%s", path);
    for (char *c = pointer + before; *c; c++)
        if (*c == '.')
            *c = '/';
}

static bool refuse_field(const struct section *section, const char *path, const cJSON *node,
                         const char *expected, struct fault *fault)
{
    const struct checkpoint *checkpoint = section->checkpoint;
    char pointer[FAULT_POINTER_MAX], value[VALUE_BYTES];
    write_value(value, &checkpoint->config, node);
    write_pointer(pointer, section->node, path);
    if (expected)
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "config.json's %.64s is %s; expected %.*s, which is all that is "
                            "computed of model_type '%.24s'",
                            path, value, (int)strcspn(expected, "|"), expected, checkpoint->type);
    return fault_set_at(fault, pointer, FAULT_FIELD,
                        "config.json's %.64s is %s, and what that changes in model_type '%.24s' is "
                        "not known here; expected null, false or nothing: take it out where it "
                        "changes no attention, or write a config of ours with \"tensors\"",
                        path, value, checkpoint->type);
}

/* Checks the fields of object, which lies in the section at prefix. */
static bool check_object(const struct section *section, const cJSON *object, const char *prefix,
                         struct fault *fault)
{
    for (const cJSON *node = object->child; node; node = node->next) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] ? "." : "", node->string);
        const char *expected = find_expected(section, path);
        if (expected && *expected == '=') {
            if (!is_value(node, expected + 1))
                return refuse_field(section, path, node, expected + 1, fault);
            continue;
        }
        if (is_neutral(&section->checkpoint->config, node) || is_named(section, path, false)
            || find_entry(IGNORED, node->string, false))
            continue;
        const bool is_entered = cJSON_IsObject(node) && is_named(section, path, true);
        if (is_entered ? !check_object(section, node, path, fault)
                       : !refuse_field(section, path, node, NULL, fault))
            return false;
    }
    return true;
}

bool checkpoint_check_fields(const struct checkpoint *checkpoint, struct fault *fault)
{
    const struct section top = { checkpoint, NULL, checkpoint->config.root };
    if (!check_object(&top, top.node, "", fault))
        return false;
    for (int i = 0; i < checkpoint->run_count; i++) {
        const struct checkpoint_run *run = &checkpoint->runs[i];
        const struct section section = { checkpoint, run->stack->section, run->section };
        if (section.name && section.node && !check_object(&section, section.node, "", fault))
            return false;
    }
    return true;
}
