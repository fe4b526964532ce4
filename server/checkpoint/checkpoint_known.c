/* checkpoint_known.c - see checkpoint_known.h.
 *
 * The rows themselves say which fields are read: each of their members names the fields that it
 * reads. "attn_config.alibi" is a field of an object. Where an object itself is named, such as
 * rope_scaling, the code that reads the object checks its fields. */
#include "checkpoint/checkpoint_known.h"

#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_forward.h"

#include <fnmatch.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 160, LISTED_BYTES = 64 };

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

/* Members of a row that name fields of config.json. */
#define AT(field) offsetof(struct checkpoint_stack, field)
static const size_t NAMED[] = {
    AT(layers),        AT(width),          AT(q_heads),    AT(kv_heads),
    AT(head_dim),      AT(causal),         AT(both_ways),  AT(more_biases_if),
    AT(clip),          AT(norms_if),       AT(norm_eps),   AT(theta),
    AT(llama3_if),     AT(local_theta),    AT(rotary_dim), AT(rotary_fraction),
    AT(rope_if),       AT(scaling),        AT(positions),  AT(original_positions),
    AT(scale),         AT(scale_from),     AT(softcap),    AT(window),
    AT(alibi),         AT(alibi_max),      AT(buckets),    AT(max_distance),
    AT(image_bias_if), AT(shared_bias_if), AT(refused),    AT(inner),
    AT(reads),         AT(ignored),
};
#undef AT

/* The same of what stands around attention. */
#define AT(field) offsetof(struct checkpoint_forward_row, field)
static const size_t NAMED_FORWARD[] = {
    AT(scale),
    AT(root_scale_if),
    AT(position_offset),
    AT(padding),
    AT(position_count),
    AT(feature_count),
    AT(feature_positions),
    AT(image_size),
    AT(patch_size),
    AT(channels),
    AT(parallel),
    AT(residual_scale),
    AT(norm_bias),
    AT(norm_eps),
    AT(biases),
    AT(activation),
    AT(expert_count),
    AT(chosen_count),
    AT(head_activation),
    AT(tied),
    AT(logit_scale),
    AT(logit_divisor),
    AT(logit_root_divisor_if),
    AT(logit_softcap),
    AT(start),
    AT(reads),
};
#undef AT

/* The rows of a family that read one section of its config.json. section NULL: the top of
 * config.json, where the names of sections are known fields too. */
struct family {
    const char *model_type;
    const struct checkpoint_stack *rows;
    int row_count;
    const char *section;
    const struct json_document *document;
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

/* Whether one of count members of a row, which stand at these offsets, names path. */
static bool is_in_members(const void *row, const size_t *offsets, size_t count, const char *path,
                          bool below)
{
    for (size_t i = 0; i < count; i++) {
        const char *const *field =
            (const char *const *)(const void *)((const char *)row + offsets[i]);
        if (find_entry(*field, path, below))
            return true;
    }
    return false;
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Whether a row of the section names path; with below, a field of the object at path. */
static bool is_named(const struct family *family, const char *path, bool below)
{
    for (int i = 0; i < family->row_count; i++) {
        const struct checkpoint_stack *row = &family->rows[i];
        if (!family->section && row->section
            && (find_entry(row->section, path, below) || find_entry(row->ignored, path, below)))
            return true;
        if (!is_same_section(row->section, family->section))
            continue;
        const struct checkpoint_forward_row *forward =
            checkpoint_forward_find(family->model_type, row->kind);
        if (is_in_members(row, NAMED, COUNT(NAMED), path, below)
            || (forward
                && is_in_members(forward, NAMED_FORWARD, COUNT(NAMED_FORWARD), path, below)))
            return true;
        if (row->theta && row->theta[0] != '=' && find_entry(ROTARY, path, below))
            return true;
    }
    return find_entry(READ, path, below);
}

/* The value that a row of the section expects at path, "=3|..."; NULL: no row expects one. */
static const char *find_expected(const struct family *family, const char *path)
{
    for (int i = 0; i < family->row_count; i++) {
        const struct checkpoint_stack *row = &family->rows[i];
        const char *value = is_same_section(row->section, family->section)
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

static void write_value(char value[LISTED_BYTES], const struct json_document *document,
                        const cJSON *node)
{
    if (cJSON_IsNumber(node))
        snprintf(value, LISTED_BYTES, "%.9g", node->valuedouble);
    else if (cJSON_IsString(node))
        snprintf(value, LISTED_BYTES, "'%.40s'", node->valuestring);
    else if (cJSON_IsBool(node))
        snprintf(value, LISTED_BYTES, "%s", cJSON_IsTrue(node) ? "true" : "false");
    else
        snprintf(value, LISTED_BYTES, "%s", json_kind(document, node));
}

/* Whether node has the value before the "|" of "3|...". */
static bool is_value(const cJSON *node, const char *expected)
{
    char text[LISTED_BYTES];
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

static bool refuse(const struct family *family, const cJSON *section, const char *path,
                   const cJSON *node, const char *expected, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX], value[LISTED_BYTES];
    write_value(value, family->document, node);
    write_pointer(pointer, section, path);
    if (expected)
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "config.json's %.64s is %s; expected %.*s, which is all that is "
                            "computed of model_type '%.24s'",
                            path, value, (int)strcspn(expected, "|"), expected, family->model_type);
    return fault_set_at(fault, pointer, FAULT_FIELD,
                        "config.json's %.64s is %s, and what that changes in model_type '%.24s' is "
                        "not known here; expected null, false or nothing: take it out where it "
                        "changes no attention, or write a config of ours with \"tensors\"",
                        path, value, family->model_type);
}

/* Checks the fields of object, which stands in section at prefix. */
static bool check_fields(const struct family *family, const cJSON *section, const cJSON *object,
                         const char *prefix, struct fault *fault)
{
    for (const cJSON *node = object->child; node; node = node->next) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] ? "." : "", node->string);
        const char *expected = find_expected(family, path);
        if (expected && *expected == '=') {
            if (!is_value(node, expected + 1))
                return refuse(family, section, path, node, expected + 1, fault);
            continue;
        }
        if (is_neutral(family->document, node) || is_named(family, path, false)
            || find_entry(IGNORED, node->string, false))
            continue;
        const bool is_entered = cJSON_IsObject(node) && is_named(family, path, true);
        if (is_entered ? !check_fields(family, section, node, path, fault)
                       : !refuse(family, section, path, node, NULL, fault))
            return false;
    }
    return true;
}

bool checkpoint_known_check(const struct checkpoint *checkpoint, const char *model_type,
                            struct fault *fault)
{
    const cJSON *root = checkpoint->config.root;
    struct family family = { .model_type = model_type, .document = &checkpoint->config };
    family.rows = checkpoint_families_find(model_type, &family.row_count);
    if (!check_fields(&family, root, root, "", fault))
        return false;
    for (int i = 0; i < checkpoint->run_count; i++) {
        const struct checkpoint_run *run = &checkpoint->runs[i];
        family.section = run->stack->section;
        if (family.section && run->section
            && !check_fields(&family, run->section, run->section, "", fault))
            return false;
    }
    return true;
}
