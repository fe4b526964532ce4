/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_unknown.c - what is said of a family that is not known: what its attention has that no
 * config of ours can say, which known family has the same names, and which tensors are attention's.
 *
 * Names of tensors tell it, for a name is a part of the family's published code. Without this a
 * config of ours could be written that leaves a part of attention out in silence. */
#include "models/checkpoint/checkpoint.h"

#include "base/names.h"
#include "models/checkpoint/checkpoint_tensors.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

enum { LISTED_BYTES = 128, PARTS_BYTES = 192, NEAREST_BYTES = 160, FAMILY_BYTES = 32 };

/* -------------------------------------------------------------------- names -- */

/* Patterns are those of a shell, "*.sinks|*.A_log". A name that they are compared with begins with
 * a full stop, so that "*.q_norm.*" is a whole word of it, also the first one. */
struct dotted {
    char text[CHECKPOINT_NAME_BYTES];
};

static struct dotted dotted_name(const char *name)
{
    struct dotted dotted;
    snprintf(dotted.text, sizeof dotted.text, ".%s", name);
    return dotted;
}

static bool matches_any(const char *name, const char *patterns)
{
    char pattern[64];
    while (*patterns) {
        const size_t length = strcspn(patterns, "|");
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, patterns);
        if (fnmatch(pattern, name, 0) == 0)
            return true;
        patterns += length + (patterns[length] == '|');
    }
    return false;
}

/* Feed-forwards have words such as key and attention, too, and most of a mixture's tensors. */
static bool is_feed_forward(const char *dotted)
{
    static const char *const WORDS[] = { ".mlp.", ".ffn.", ".ff.", "feed_forward.",
                                         "block_sparse_moe." };
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (strstr(dotted, WORDS[i]))
            return true;
    return false;
}

/* -------------------------------------------------------------------- parts -- */

#define OWN_NORMS                                                                                  \
    "*.q_norm.*|*.k_norm.*|*.q_ln.*|*.k_ln.*|*.query_norm.*|*.key_norm.*|*.q_layernorm.*|"         \
    "*.k_layernorm.*|*.query_layernorm.*|*.key_layernorm.*|*.norm_q.*|*.norm_k.*"
#define CONTEXT_NORMS "*.attn_sub_norm.*|*.inner_attn_ln.*"

/* What tensors are called that belong to a part of attention which no config of ours has. */
static const struct {
    const char *part, *patterns;
} PARTS[] = {
    { "latent projections", "*.kv_a_proj*|*.q_a_proj*|*.kv_b_proj*" },
    { "linear attention", "*.linear_attn.*|*.time_mix*|*.time_decay|*.self_attn.output_gate.*" },
    { "a state space", "*.A_log" },
    { "a recurrence", "*.rg_lru.*" },
    { "sinks", "*.sinks|*.attention_sink_bias" },
    { "norms of query and key", OWN_NORMS },
    { "a norm of the context", CONTEXT_NORMS },
    { "differential attention", "*.lambda_q1" },
    { "relative positions",
      "*.rel_embeddings.*|*.rel_pos*|*.rel_attn_embed.*|*gru_rel_pos*|*.relative_attention_bias.*|"
      "*.relative_position*|*.relative_pos_embeddings.*|*.distance_embedding.*|*.linear_pos.*|"
      "*.pos_bias_u|*.r_w_bias|*.r_net.*|*att*.pos_proj.*|*.pe_k.*|*.continuous_position_bias_*" },
    { "cosine scores", "*att*.logit_scale" },
    { "convolutions", "*att*.conv*|*att*conv_attn*" },
    { "reduced keys", "*att*.sr.*" },
    { "global queries", "*.query_global.*" },
    { "hashed keys", "*att*.query_key.*" },
    { "sampled keys", "*.sampling_offsets.*" },
    { "gates", "*attn_gate|*.attn_gate.*|*.self_attn.g_proj.*" },
};
enum { PART_COUNT = sizeof PARTS / sizeof PARTS[0] };

/* The parts that the file's attention has, 1 << index of PARTS each. */
static unsigned find_parts(const struct model_tensors *tensors)
{
    unsigned found = 0;
    for (int64_t i = 0; i < tensors->entry_count; i++) {
        const struct dotted name = dotted_name(tensors->entries[i].name);
        if (is_feed_forward(name.text))
            continue;
        for (unsigned k = 0; k < PART_COUNT; k++)
            if (!(found & 1u << k) && matches_any(name.text, PARTS[k].patterns))
                found |= 1u << k;
    }
    return found;
}

/* "; it has latent projections, norms of query and key, which no config of ours has"; "": none. */
static void write_parts(unsigned found, char text[PARTS_BYTES])
{
    char names[PARTS_BYTES - 48] = "";
    struct name_list list = name_list_in(names, sizeof names);
    for (unsigned k = 0; k < PART_COUNT; k++)
        if (found & 1u << k)
            name_list_add(&list, PARTS[k].part);
    name_list_end(&list);
    snprintf(text, PARTS_BYTES, "%s%s%s", found ? "; it has " : "", names,
             found ? ", which a config of ours cannot say" : "");
}

/* ------------------------------------------------------------------ nearest -- */

/* The tensor whose name ends with ending, and what stands before that: whole words, one at
 * most with is_behind_one_word; NULL: there is none. */
static const struct model_entry *find_ending(const struct model_tensors *tensors,
                                             const char *ending, bool is_behind_one_word,
                                             char before[CHECKPOINT_PREFIX_BYTES])
{
    const size_t length = strlen(ending);
    for (int64_t i = 0; i < tensors->entry_count; i++) {
        const struct model_entry *entry = &tensors->entries[i];
        const size_t whole = strlen(entry->name), rest = whole - length;
        if (whole < length || rest >= CHECKPOINT_PREFIX_BYTES
            || strcmp(entry->name + rest, ending) != 0 || (rest > 0 && entry->name[rest - 1] != '.')
            || (is_behind_one_word && strcspn(entry->name, ".") + 1 < rest))
            continue;
        snprintf(before, CHECKPOINT_PREFIX_BYTES, "%.*s", (int)rest, entry->name);
        return entry;
    }
    return NULL;
}

/* Finds the queries of layer 0 under one of the run's prefixes, which may stand behind other words,
 * else behind any one word: "ernie.encoder.layer.0.attention.self.query.weight" has BERT's name.
 * Sets the run's prefix, and *is_own: that it is one of the stack's. */
static const struct model_entry *find_queries(struct checkpoint_run *run,
                                              const struct model_tensors *tensors, bool *is_own)
{
    const char *prefixes = run->stack->prefixes;
    char ending[CHECKPOINT_NAME_BYTES], before[CHECKPOINT_PREFIX_BYTES];
    for (bool is_last = false; !is_last;) {
        while (*prefixes == '|')
            prefixes++;
        const size_t length = strcspn(prefixes, "|");
        is_last = length == 0; /* all have been tried */
        snprintf(run->prefix, sizeof run->prefix, "%.*s", (int)length, prefixes);
        checkpoint_name_write_layer(ending, run, 0);
        const struct model_entry *entry = find_ending(tensors, ending, is_last, before);
        if (entry && strlen(before) + length < sizeof run->prefix) {
            snprintf(run->prefix, sizeof run->prefix, "%.*s%.*s", (int)strlen(before), before,
                     (int)length, prefixes);
            *is_own = !before[0] && !is_last;
            return entry;
        }
        prefixes += length;
    }
    return NULL;
}

static uint64_t dimension(const struct model_entry *entry, int64_t index)
{
    return entry->rank == 1 || entry->rank == 2 ? entry->shape[index] : 0;
}

/* Whether the weight of a norm of queries has the form of that scope. */
static bool is_of_scope(const struct model_entry *norm, enum attn_norm_scope scope,
                        uint64_t outputs)
{
    const bool is_row = norm->rank == 1 && dimension(norm, 0) == outputs;
    return scope == ATTN_NORM_ROW    ? is_row
           : scope == ATTN_NORM_HEAD ? norm->rank == 1 && !is_row
                                     : norm->rank == 2;
}

/* A fused matrix has more outputs than inputs, so it tells which of its dimensions are which. */
static bool is_of_layout(const struct checkpoint_stack *stack, const struct model_entry *queries)
{
    const uint64_t rows = dimension(queries, 0), columns = dimension(queries, 1);
    return (stack->fusion == CHECKPOINT_SEPARATE || stack->fusion == CHECKPOINT_KEYS)
           || (stack->in_out ? columns >= rows : rows >= columns);
}

static bool has_tensor(const struct checkpoint_run *run, const struct model_tensors *tensors,
                       const char *part, const char *ending)
{
    char name[CHECKPOINT_NAME_BYTES];
    checkpoint_name_write(name, run, 0, part, ending);
    return model_tensors_find(tensors, name) != NULL;
}

/* How many projections have a bias, or none, against the row. */
static int count_other_biases(const struct checkpoint_run *run, const struct model_tensors *tensors)
{
    const struct checkpoint_stack *stack = run->stack;
    int others = 0, with_more = 0;
    for (unsigned i = 0; i < MODEL_PROJECTION_COUNT; i++) {
        if (!stack->projections[i])
            continue;
        const bool is_there = has_tensor(run, tensors, stack->projections[i], ".bias");
        others += is_there != !!(stack->biases & 1u << i);
        with_more += is_there != !!((stack->biases | stack->more_biases) & 1u << i);
    }
    return stack->more_biases && with_more < others ? with_more : others;
}

/* How many of the norms around attention and the feed-forward the file has, in layer 0. */
static int count_norms_around(const struct checkpoint_run *run, const struct model_tensors *tensors)
{
    const struct checkpoint_pass *pass = &run->stack->pass;
    const char *const NORMS[] = { pass->attention.before,    pass->attention.inside,
                                  pass->attention.after,     pass->feed_forward.before,
                                  pass->feed_forward.inside, pass->feed_forward.after };
    char name[CHECKPOINT_NAME_BYTES];
    int count = 0;
    for (size_t i = 0; i < sizeof NORMS / sizeof NORMS[0]; i++) {
        if (!NORMS[i])
            continue;
        checkpoint_name_write_block(name, run, 0, NORMS[i], ".weight");
        count += model_tensors_find(tensors, name) != NULL;
    }
    return count;
}

/* How alike the attention of a row and of the file are; 0: a projection or a norm of the row is not
 * there. *queries are those of layer 0. */
static int likeness_of_row(const struct checkpoint_stack *stack,
                           const struct checkpoint *checkpoint, const struct model_tensors *tensors,
                           const struct model_entry **queries)
{
    struct checkpoint_run run = { .stack = stack,
                                  .document = &checkpoint->config,
                                  .section = checkpoint->config.root,
                                  .inner_count = 1 };
    char name[CHECKPOINT_NAME_BYTES];
    bool is_own = false;
    int count = 0;
    *queries = find_queries(&run, tensors, &is_own);
    if (!*queries || !is_of_layout(stack, *queries))
        return 0;
    for (int i = 0; i < MODEL_PROJECTION_COUNT; i++) {
        if (!stack->projections[i])
            continue;
        if (!has_tensor(&run, tensors, stack->projections[i], ".weight"))
            return 0;
        count++;
    }
    for (int i = 0; i < 2; i++) {
        if (!stack->norms[i] || strchr(stack->norms[i], '%'))
            continue;
        checkpoint_name_write(name, &run, 0, stack->norms[i], ".weight");
        const struct model_entry *norm = model_tensors_find(tensors, name);
        if (!norm
            || (i == 0
                && !is_of_scope(norm, stack->norm_scope, dimension(*queries, stack->in_out))))
            return 0;
        count++;
    }
    return 16 * count - 3 * count_other_biases(&run, tensors) + count_norms_around(&run, tensors)
           + is_own;
}

/* The same of the family whose first row it is, over its rows; layers that two rows find under the
 * same names count once. */
static int likeness_of_family(const struct checkpoint_stack *first,
                              const struct checkpoint *checkpoint,
                              const struct model_tensors *tensors)
{
    const struct model_entry *seen[CHECKPOINT_STACKS_MAX] = { NULL };
    int sum = 0, count = 0;
    for (const struct checkpoint_stack *row = first;
         row->model_type && count < CHECKPOINT_STACKS_MAX
         && strcmp(row->model_type, first->model_type) == 0;
         row++) {
        const int alike = likeness_of_row(row, checkpoint, tensors, &seen[count]);
        bool is_new = alike > 0;
        for (int i = 0; i < count; i++)
            is_new = is_new && seen[i] != seen[count];
        sum += is_new ? alike : 0;
        count += is_new;
    }
    return sum;
}

/* Writes the first name of the known family whose attention is most like the file's; "": none. */
static void find_nearest_family(const struct checkpoint *checkpoint,
                                const struct model_tensors *tensors, char family[FAMILY_BYTES])
{
    static const struct checkpoint_stack *const TABLES[] = CHECKPOINT_TABLES;
    int most = 0;
    family[0] = '\0';
    for (size_t i = 0; i < sizeof TABLES / sizeof TABLES[0]; i++)
        for (const struct checkpoint_stack *stack = TABLES[i]; stack->model_type; stack++) {
            const int alike = likeness_of_family(stack, checkpoint, tensors);
            if (alike <= most)
                continue;
            most = alike;
            snprintf(family, FAMILY_BYTES, "%.*s", (int)strcspn(stack->model_type, "|"),
                     stack->model_type);
        }
}

/* ---------------------------------------------------------------- attention -- */

/* The word of a name that says of what its last word is: "self_attn_layer_norm" of
 * ".layers.0.self_attn_layer_norm.weight". */
static void write_module(char module[CHECKPOINT_NAME_BYTES], const char *dotted)
{
    static const char *const NUMBERS[] = { ".weight", ".bias" };
    size_t length = strlen(dotted);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++) {
        const size_t ending = strlen(NUMBERS[i]);
        if (length > ending && strcmp(dotted + length - ending, NUMBERS[i]) == 0) {
            length -= ending;
            break;
        }
    }
    size_t first = length;
    while (first > 0 && dotted[first - 1] != '.')
        first--;
    snprintf(module, CHECKPOINT_NAME_BYTES, "%.*s", (int)(length - first), dotted + first);
}

/* Whether it is a norm, but for those that are a part of attention. */
static bool is_norm_around(const char *dotted)
{
    char module[CHECKPOINT_NAME_BYTES];
    write_module(module, dotted);
    return matches_any(module, "*norm*|*Norm*|ln|ln_*|ln[0-9]*|*_ln")
           && !matches_any(dotted, OWN_NORMS "|" CONTEXT_NORMS);
}

/* Whether the file keeps in it what the code computes: a mask, an index, the angles of a rotary
 * embedding. GPT-2's masks are [1, 1, n, n], and are called bias. */
static bool is_computed(const struct model_entry *entry, const char *dotted)
{
    return (entry->rank > 3 && matches_any(dotted, "*.bias"))
           || matches_any(dotted, "*.masked_bias|*_mask|*.inv_freq|*_index|*.position_ids");
}

static bool is_attention(const struct model_entry *entry, bool has_state_space)
{
    const struct dotted name = dotted_name(entry->name);
    return !is_feed_forward(name.text) && !is_norm_around(name.text)
           && !is_computed(entry, name.text)
           && (matches_any(name.text, "*attn*|*attention*|*Attention*|*.[qkvo]_proj.*|*.qkv.*|"
                                      "*.qkv_proj.*|*.Wqkv.*|*.query_key_value.*|*.c_attn.*")
               || (!has_state_space && matches_any(name.text, "*.mixer.*")));
}

/* "h.0.attn.weight, h.1.attn.weight and 22 more"; in the order of the file. */
static void list_attention(const struct model_tensors *tensors, bool has_state_space,
                           char text[LISTED_BYTES])
{
    struct name_list list = name_list_in(text, LISTED_BYTES);
    for (int64_t i = 0; i < tensors->entry_count; i++) {
        const struct model_entry *entry = &tensors->entries[i];
        if (is_attention(entry, has_state_space))
            name_list_add(&list, entry->name);
    }
    name_list_end(&list);
}

bool checkpoint_refuse_family(const struct checkpoint *checkpoint,
                              const struct model_tensors *tensors, struct fault *fault)
{
    char listed[LISTED_BYTES], parts[PARTS_BYTES], family[FAMILY_BYTES], nearest[NEAREST_BYTES];
    const unsigned found = find_parts(tensors);
    write_parts(found, parts);
    list_attention(tensors, strstr(parts, "a state space"), listed);
    find_nearest_family(checkpoint, tensors, family);
    snprintf(nearest, sizeof nearest, "%s%s%s",
             family[0] ? "; its tensors have the names of '"
                       : "; no family known here has its names",
             family,
             !family[0] ? ""
             : parts[0] ? "', the nearest family"
                        : "': where it computes the same, that may be its model_type");
    return fault_set_at(fault, "/config/model_type", FAULT_OPTION,
                        "model_type '%.64s' %s%s%s; write {\"attention\":\"scaled_dot_product\","
                        "\"layers\":N,\"q_heads\":N,\"tensors\":{\"layers.0.q_proj.weight\":"
                        "\"...\"}} as config.json%s; attention in this file: %s",
                        checkpoint->type,
                        checkpoint->stack_count > 0 ? "has other tensors" : "is not known here",
                        parts, nearest, parts[0] ? " only where these may be left out" : "",
                        listed[0] ? listed : "none by its names");
}
