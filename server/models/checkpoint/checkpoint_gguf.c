/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf.c - config.json from metadata, and names of tensors. */
#include "models/checkpoint/checkpoint_gguf.h"

#include "base/names.h"
#include "models/checkpoint/checkpoint_gguf_row.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 160, FIELD_BYTES = 64, EXPERTS_MAX = 4096 };

/* ----------------------------------------------------------------- the row -- */

static const struct checkpoint_gguf *const TABLES[] = { checkpoint_ggufs, checkpoint_ggufs_newer,
                                                        checkpoint_ggufs_gemmas,
                                                        checkpoint_ggufs_hybrids };
enum { TABLE_COUNT = sizeof TABLES / sizeof TABLES[0], NAMES_MAX = 64 };

/* Whether the file has the tensor, or the key behind a dot. */
static bool has_sign(struct checkpoint_gguf_file file, const struct checkpoint_gguf *row)
{
    file.row = row;
    return !row->has
           || (row->has[0] == '.' ? checkpoint_gguf_number(&file, row->has + 1, 0) != 0
                                  : checkpoint_gguf_has(&file, row->has));
}

static const struct checkpoint_gguf *find_row(const struct checkpoint_gguf_file *file,
                                              const char *name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        for (const struct checkpoint_gguf *row = TABLES[i]; row->architecture; row++)
            if (strcmp(row->architecture, name) == 0 && has_sign(*file, row))
                return row;
    return NULL;
}

static bool refuse_architecture(const char *name, struct fault *fault)
{
    const char *names[NAMES_MAX];
    int count = 0;
    for (size_t i = 0; i < TABLE_COUNT; i++)
        for (const struct checkpoint_gguf *row = TABLES[i]; row->architecture; row++)
            if (count < NAMES_MAX
                && (count == 0 || strcmp(names[count - 1], row->architecture) != 0))
                names[count++] = row->architecture;
    char list[360] = "";
    struct name_list text = name_list_in(list, sizeof list);
    for (int i = 0; i < count; i++)
        name_list_add(&text, names[i]);
    name_list_end(&text);
    const char *nearest = nearest_name(name, names, count);
    return fault_set_at(fault, "/config/model_type", FAULT_OPTION,
                        "the GGUF file's general.architecture is '%.40s', which is not read%s%s%s; "
                        "expected one of %s; a model of another family may be served from its "
                        "safetensors",
                        name, nearest ? "; the nearest that is is '" : "", nearest ? nearest : "",
                        nearest ? "'" : "", list);
}

/* ------------------------------------------------------------------ fields -- */

/* Copies "name" of "name=key|..." and returns what follows "=" or ends the list. */
static const char *take_name(char *name, size_t size, const char *list)
{
    const size_t length = strcspn(list, "=|");
    snprintf(name, size, "%.*s", (int)length, list);
    return list + length + (list[length] == '=');
}

static bool add_field(const struct checkpoint_gguf_file *file, const char *field, const char *from)
{
    char key[KEY_BYTES], otherwise[FIELD_BYTES];
    const size_t length = strcspn(from, "?|");
    const bool may_be_missing = from[length] == '?';
    snprintf(key, sizeof key, "%.*s", (int)length, from);
    const struct gguf_value *value = checkpoint_gguf_find(file, key);
    if (value)
        return checkpoint_gguf_add_value(file, field, key, value);
    if (!may_be_missing)
        return checkpoint_gguf_refuse(file, field, key, "has no");
    from += length + 1;
    snprintf(otherwise, sizeof otherwise, "%.*s", (int)strcspn(from, "|"), from);
    return !otherwise[0]
           || checkpoint_gguf_add_item(file, file->config, field, cJSON_Parse(otherwise));
}

static const char *next_entry(const char *list)
{
    list += strcspn(list, "|");
    return list + (*list == '|');
}

static bool add_fields(const struct checkpoint_gguf_file *file)
{
    char field[FIELD_BYTES];
    for (const char *list = file->row->fields; *list; list = next_entry(list))
        if (!add_field(file, field, take_name(field, sizeof field, list)))
            return false;
    return true;
}

/* Flags of tensors that are there. */
static bool add_present(const struct checkpoint_gguf_file *file)
{
    char field[FIELD_BYTES], name[KEY_BYTES];
    const char *list = file->row->present ? file->row->present : "";
    for (; *list; list = next_entry(list)) {
        const char *from = take_name(field, sizeof field, list);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(from, "|"), from);
        if (!checkpoint_gguf_add_flag(file, field, checkpoint_gguf_has(file, name)))
            return false;
    }
    return true;
}

/* The tokens that end a text. */
static bool add_ends(const struct checkpoint_gguf_file *file)
{
    static const char *const KEYS[] = { "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    cJSON *list = cJSON_AddArrayToObject(file->config, "eos_token_id");
    if (!list)
        return fault_no_memory(file->fault);
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        const struct gguf_value *value = gguf_find(file->metadata, KEYS[i]);
        int64_t id;
        if (!value || !gguf_integer(value, &id) || id < 0 || id > INT32_MAX)
            continue;
        cJSON *item = cJSON_CreateNumber((double)id);
        if (!item || !cJSON_AddItemToArray(list, item)) {
            cJSON_Delete(item);
            return fault_no_memory(file->fault);
        }
    }
    return true;
}

static bool refuse_key(const struct checkpoint_gguf_file *file, const char *key, const char *why)
{
    return fault_set_at(file->fault, "/config", FAULT_OPTION,
                        "the GGUF file's metadata has '%s.%.60s', which is %s",
                        file->row->architecture, key, why);
}

static bool row_reads(const struct checkpoint_gguf *row, const char *key)
{
    return row->reads && checkpoint_has_type(row->reads, key);
}

/* Keys that no family of ours has anything for: only what changes nothing is taken. */
static bool check_keys(const struct checkpoint_gguf_file *file)
{
    static const struct {
        const char *key;
        double neutral;
    } KEYS[] = {
        { "attention.temperature_scale", 0 },
        { "attention.temperature_length", 0 },
        { "attention.output_scale", 1 },
        { "attention.shared_kv_layers", 0 },
        { "expert_weights_scale", 1 },
        { "rope.scaling.yarn_log_multiplier", 0 },
        { "expert_group_count", 1 },
        { "rope.scaling.yarn_attn_factor", 1 },
        { "rope.scaling.yarn_ext_factor", -1 },
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        const double number = checkpoint_gguf_number(file, KEYS[i].key, 0);
        if (number != 0 && number != KEYS[i].neutral && !row_reads(file->row, KEYS[i].key))
            return refuse_key(file, KEYS[i].key, "not computed here");
    }
    if (!file->row->has_alpha && checkpoint_gguf_number(file, "rope.scaling.alpha", 0) > 0)
        return refuse_key(file, "rope.scaling.alpha", "not computed here");
    const double keys = checkpoint_gguf_number(file, "attention.key_length", 0);
    const double values = checkpoint_gguf_number(file, "attention.value_length", keys);
    return keys == 0 || values == keys || row_reads(file->row, "attention.value_length")
           || refuse_key(file, "attention.value_length", "not attention.key_length");
}

/* Whether rows see later ones, as the metadata says it of any architecture. */
static bool add_causal(const struct checkpoint_gguf_file *file)
{
    static const char KEY[] = "attention.causal";
    const struct gguf_value *value = checkpoint_gguf_find(file, KEY);
    bool is_causal;
    if (!value)
        return true;
    if (!gguf_flag(value, &is_causal))
        return checkpoint_gguf_refuse(file, "is_causal", KEY, "has no flag under");
    return checkpoint_gguf_add_flag(file, "is_causal", is_causal);
}

static bool make_config(const struct checkpoint_gguf_file *file)
{
    return check_keys(file) && checkpoint_gguf_add_text(file, "model_type", file->row->model_type)
           && add_fields(file) && add_present(file)
           && checkpoint_gguf_add_flag(file, "tie_word_embeddings",
                                       !checkpoint_gguf_has(file, "output.weight"))
           && add_ends(file) && add_causal(file)
           && (!file->row->has_rope || checkpoint_gguf_add_rope(file))
           && (!file->row->finish || file->row->finish(file));
}

/* ------------------------------------------------------------------- names -- */

/* A name with its numbers taken out: "blk.3.ffn_gate.1.weight" is "blk.%.ffn_gate.#", 3, 1 and
 * ".weight". */
struct cut_name {
    char stem[CHECKPOINT_NAME_BYTES];
    char numbers[2][24];
    const char *ending;
};

static bool is_digits(const char *text, size_t length)
{
    return length > 0 && length < 20 && strspn(text, "0123456789") >= length
           && (length == 1 || text[0] != '0');
}

/* A name without an ending has an empty one. False: it is too long. */
static bool cut_name(struct cut_name *cut, const char *name)
{
    static const char *const ENDINGS[] = { ".weight", ".bias" };
    const size_t length = strlen(name);
    size_t used = 0, stem_length = 0;
    int count = 0;
    cut->ending = "";
    stem_length = length;
    cut->numbers[0][0] = cut->numbers[1][0] = '\0';
    for (size_t i = 0; i < 2; i++) {
        const size_t ending = strlen(ENDINGS[i]);
        if (length > ending && strcmp(name + length - ending, ENDINGS[i]) == 0) {
            cut->ending = ENDINGS[i];
            stem_length = length - ending;
        }
    }
    if (length >= sizeof cut->stem)
        return false;
    while (stem_length > 0) {
        const size_t word = strcspn(name, ".") < stem_length ? strcspn(name, ".") : stem_length;
        if (count < 2 && is_digits(name, word)) {
            snprintf(cut->numbers[count], sizeof cut->numbers[count], "%.*s", (int)word, name);
            cut->stem[used++] = count++ == 0 ? '%' : '#';
        } else {
            memcpy(cut->stem + used, name, word);
            used += word;
        }
        const size_t step = word + (word < stem_length);
        if (step > word)
            cut->stem[used++] = '.';
        name += step;
        stem_length -= step;
    }
    cut->stem[used] = '\0';
    return true;
}

/* The family's name for a stem; NULL: it has none. It ends at "|" or with the list. */
static const char *find_name(const char *list, const char *stem)
{
    const size_t length = strlen(stem);
    for (; *list; list = next_entry(list))
        if (strncmp(list, stem, length) == 0 && list[length] == '=')
            return list + length + 1;
    return NULL;
}

/* Whether the first name of a list has the mark. */
static bool has_mark(const char *pattern, char mark)
{
    return memchr(pattern, mark, strcspn(pattern, "|")) != NULL;
}

/* Writes the family's name with its numbers. */
static void write_name(char name[CHECKPOINT_NAME_BYTES], const char *pattern,
                       const struct cut_name *cut, const char *expert)
{
    size_t used = 0;
    bool has_ending = true;
    for (; *pattern && *pattern != '|' && used + 32 < CHECKPOINT_NAME_BYTES; pattern++)
        if (*pattern == '!')
            has_ending = false;
        else if (*pattern == '^')
            continue;
        else if (*pattern == '%' || *pattern == '#')
            used +=
                (size_t)snprintf(name + used, 24, "%s", *pattern == '%' ? cut->numbers[0] : expert);
        else
            name[used++] = *pattern;
    snprintf(name + used, CHECKPOINT_NAME_BYTES - used, "%s", has_ending ? cut->ending : "");
}

/* ------------------------------------------------------------------- views -- */

/* The entries under their new names. */
struct renaming {
    struct model_tensors *tensors;
    struct model_entry *entries; /* malloc'd */
    int64_t count;
    struct fault *fault;
};

static bool add_entry(struct renaming *renaming, const struct model_entry *entry, const char *name)
{
    struct model_entry *added = &renaming->entries[renaming->count++];
    *added = *entry;
    added->name = arena_strdup(&renaming->tensors->arena, name);
    added->name_length = strlen(name);
    return added->name || fault_no_memory(renaming->fault);
}

/* Each expert's part of a tensor that has them one behind the other. */
static bool add_experts(struct renaming *renaming, const struct model_entry *entry,
                        const char *pattern, const struct cut_name *cut)
{
    const uint64_t count = entry->shape[0];
    struct model_entry part = *entry;
    char name[CHECKPOINT_NAME_BYTES], expert[24];
    part.rank = entry->rank - 1;
    memmove(part.shape, part.shape + 1, sizeof part.shape - sizeof part.shape[0]);
    part.shape[MODEL_ENTRY_DIMENSIONS - 1] = 0;
    part.number_count = entry->number_count / count;
    part.size = entry->size / count;
    for (uint64_t i = 0; i < count; i++) {
        part.data = (const char *)entry->data + i * part.size;
        snprintf(expert, sizeof expert, "%" PRIu64, i);
        write_name(name, pattern, cut, expert);
        if (!add_entry(renaming, &part, name))
            return false;
    }
    return true;
}

/* How many entries a tensor becomes. */
static int64_t entries_of(const struct model_entry *entry, const char *pattern,
                          const struct cut_name *cut)
{
    const bool has_experts = pattern && has_mark(pattern, '#') && !cut->numbers[1][0];
    return !has_experts ? 1
           : entry->rank > 1 && entry->shape[0] >= 1 && entry->shape[0] <= EXPERTS_MAX
               ? (int64_t)entry->shape[0]
               : -1;
}

static bool refuse_experts(const struct model_entry *entry, struct fault *fault)
{
    return fault_set_at(fault, "/parameters", FAULT_SHAPE,
                        "tensor '%.100s' is not of 1 to %d experts, one behind the other",
                        entry->name, EXPERTS_MAX);
}

/* Whether a tensor is of a block, and of an expert, that the metadata counts. No layer would read
 * another one, and nothing would say so. */
static bool check_counted(const struct checkpoint_gguf_file *file, const struct model_entry *entry,
                          const struct cut_name *cut, int64_t experts)
{
    static const char *const KEYS[] = { "block_count", "decoder_block_count", "expert_count" };
    const char *blocks =
        KEYS[strncmp(entry->name, "dec.", 4) == 0 && checkpoint_gguf_find(file, KEYS[1])];
    const char *keys[2] = { blocks, KEYS[2] };
    for (int i = 0; i < 2; i++) {
        const double count = checkpoint_gguf_number(file, keys[i], 0);
        if (cut->numbers[i][0] && strtod(cut->numbers[i], NULL) >= count)
            return fault_set_at(file->fault, "/parameters", FAULT_FIELD,
                                "the GGUF file has a tensor '%.100s', and its %s.%s is %.0f",
                                entry->name, file->row->architecture, keys[i], count);
    }
    const double count = checkpoint_gguf_number(file, KEYS[2], 0);
    return experts <= 1 || !cut->numbers[0][0] /* of no block: no experts, see the row */
           || (double)experts == count
           || fault_set_at(file->fault, "/parameters", FAULT_SHAPE,
                           "tensor '%.100s' is of %" PRId64
                           " experts, and the file's %s.%s is %.0f",
                           entry->name, experts, file->row->architecture, KEYS[2], count);
}

static const char *pattern_of(const struct checkpoint_gguf *row, const struct model_entry *entry,
                              struct cut_name *cut)
{
    return cut_name(cut, entry->name) ? find_name(row->tensors, cut->stem) : NULL;
}

static bool add_renamed(struct renaming *renaming, const struct checkpoint_gguf *row,
                        const struct model_entry *entry)
{
    struct cut_name cut;
    char name[CHECKPOINT_NAME_BYTES];
    const char *pattern = pattern_of(row, entry, &cut);
    if (!pattern)
        return add_entry(renaming, entry, entry->name);
    if (has_mark(pattern, '#') && !cut.numbers[1][0])
        return add_experts(renaming, entry, pattern, &cut);
    write_name(name, pattern, &cut, cut.numbers[1]);
    struct model_entry row_of = *entry;
    if (has_mark(pattern, '^') && entry->rank == 1) {
        row_of.rank = 2;
        row_of.shape[0] = 1;
        row_of.shape[1] = entry->shape[0];
    }
    return add_entry(renaming, &row_of, name);
}

/* Tensors of no layer: the rotary embedding, and heads of classes and vectors. What a tensor does
 * that is neither these nor the row's is not known, and without it the numbers could be wrong. */
static bool check_known(const struct model_entry *entry, struct fault *fault)
{
    static const char *const KNOWN[] = {
        "rope_freqs.*",          "rope_factors_*", "blk.*.rope_freqs.*",
        "blk.*.attn_rot_embd.*", "cls.*",          "dense_*"
    };
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        if (fnmatch(KNOWN[i], entry->name, 0) == 0)
            return true;
    return fault_set_at(fault, "/parameters", FAULT_FIELD,
                        "the GGUF file has a tensor '%.100s', and what that changes in its "
                        "architecture is not known here",
                        entry->name);
}

/* Checks all names and sets how many entries the tensors become. */
static bool check_names(const struct checkpoint_gguf_file *file, int64_t *count)
{
    struct cut_name cut;
    *count = 0;
    for (int64_t i = 0; i < file->tensors->entry_count; i++) {
        const struct model_entry *entry = &file->tensors->entries[i];
        const char *pattern = pattern_of(file->row, entry, &cut);
        if (!pattern && !check_known(entry, file->fault))
            return false;
        const int64_t own = entries_of(entry, pattern, &cut);
        if (own < 0)
            return refuse_experts(entry, file->fault);
        if (!check_counted(file, entry, &cut, own))
            return false;
        *count += own;
    }
    return true;
}

static bool rename_all(struct model_tensors *tensors, const struct checkpoint_gguf_file *file)
{
    struct fault *fault = file->fault;
    int64_t count;
    if (!check_names(file, &count))
        return false;
    struct renaming renaming = { .tensors = tensors,
                                 .entries = calloc((size_t)count + 1, sizeof *renaming.entries),
                                 .fault = fault };
    bool good = renaming.entries || fault_no_memory(fault);
    for (int64_t i = 0; good && i < tensors->entry_count; i++)
        good = add_renamed(&renaming, file->row, &tensors->entries[i]);
    good = good && model_tensors_rename(tensors, renaming.entries, count, fault);
    free(renaming.entries);
    return good;
}

/* ------------------------------------------------------------------- whole -- */

static bool read_config(struct checkpoint *checkpoint, char **text,
                        struct checkpoint_gguf_file *file)
{
    bool is_published;
    file->config = cJSON_CreateObject();
    const bool is_made = (file->config || fault_no_memory(file->fault)) && make_config(file);
    *text = is_made ? cJSON_PrintUnformatted(file->config) : NULL;
    cJSON_Delete(file->config);
    if (is_made && !*text)
        return fault_no_memory(file->fault);
    if (!is_made || !checkpoint_read(checkpoint, *text, &is_published, file->fault)) {
        free(*text);
        *text = NULL;
        return false;
    }
    checkpoint->gguf = file->row;
    return true;
}

bool checkpoint_read_gguf(struct checkpoint *checkpoint, char **text, struct model_tensors *tensors,
                          struct fault *fault)
{
    struct checkpoint_gguf_file file = { .metadata = model_tensors_gguf(tensors),
                                         .tensors = tensors,
                                         .fault = fault };
    const struct gguf_value *value = gguf_find(file.metadata, "general.architecture");
    const char *name;
    size_t length;
    *text = NULL;
    *checkpoint = (struct checkpoint){ .run_count = 0 };
    if (!value || !gguf_text(value, &name, &length))
        return fault_set_at(fault, "/config/model_type", FAULT_FIELD,
                            "the GGUF file's metadata has no general.architecture, which says what "
                            "model it is");
    file.row = find_row(&file, name);
    if (!file.row)
        return refuse_architecture(name, fault);
    if (!read_config(checkpoint, text, &file))
        return false;
    if (rename_all(tensors, &file))
        return true;
    checkpoint_free(checkpoint);
    free(*text);
    *text = NULL;
    return false;
}
