/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_recurrence.c - see checkpoint_recurrence.h. */
#include "models/checkpoint/checkpoint_recurrence.h"

#include "models/checkpoint/checkpoint_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The depthwise convolution of columns columns, its weights [columns, 1, taps]. */
static bool get_convolution(struct attn_convolution *convolution,
                            struct checkpoint_pass_reader *reader, const char *names,
                            const char *taps_field, int64_t columns, bool has_bias)
{
    const cJSON *section = reader->run->section;
    convolution->columns = columns;
    if (!checkpoint_read_integer(section, taps_field, &convolution->taps, reader->fault))
        return false;
    if (convolution->taps < 1 || convolution->taps > ATTN_CONVOLUTION_TAPS_MAX)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json gives convolutions of %" PRId64
                         " rows (%.*s); expected 1 to %d",
                         convolution->taps, CHECKPOINT_FIELD_NAME(section, taps_field),
                         ATTN_CONVOLUTION_TAPS_MAX);
    char weight[CHECKPOINT_NAME_BYTES], bias[CHECKPOINT_NAME_BYTES];
    snprintf(weight, sizeof weight, "%s.weight", names);
    snprintf(bias, sizeof bias, "%s.bias", names);
    if (!has_bias && checkpoint_pass_has_values(reader, bias))
        return fault_set(reader->fault, FAULT_FIELD,
                         "the file has a %s of block %" PRId64
                         ", and by config.json the convolution has no bias",
                         bias, reader->block);
    return checkpoint_pass_values(reader, &convolution->weight, weight, columns * convolution->taps)
           && (!has_bias || checkpoint_pass_values(reader, &convolution->bias, bias, columns));
}

/* Source: Lfm2ShortConv of lfm2/modeling_lfm2.py. in_proj makes B, C and x, and the row is C times
 * the convolution of B times x. */
bool checkpoint_recurrence_short_convolution(struct model_recurrence *recurrence,
                                             struct checkpoint_pass_reader *reader, int64_t width)
{
    bool has_bias;
    *recurrence = (struct model_recurrence){ .kind = MODEL_RECURRENCE_NONE,
                                             .in_count = 1,
                                             .columns = 3 * width,
                                             .factor_at = 0,
                                             .conv_gate_at = width,
                                             .convolved_at = 2 * width,
                                             .mixed = width,
                                             .gate_at = -1,
                                             .norm_groups = 1 };
    return checkpoint_read_flag(reader->run->section, "conv_bias", &has_bias, reader->fault)
           && checkpoint_pass_linear(reader, &recurrence->in[0], "in_proj", 3 * width, width, false,
                                     has_bias)
           && get_convolution(&recurrence->convolution, reader, "conv", "conv_L_cache=3", width,
                              has_bias)
           && checkpoint_pass_linear(reader, &recurrence->out, "out_proj", width, width, false,
                                     has_bias);
}

/* ----------------------------------------------------------------- gated delta rule -- */

/* Sources: Qwen3NextGatedDeltaNet of qwen3_next/modeling_qwen3_next.py, Qwen3_5GatedDeltaNet of
 * qwen3_5/modeling_qwen3_5.py. */
struct delta_sizes {
    int64_t k_heads, v_heads, k_dim, v_dim;
    int64_t keys, values; /* columns of all heads */
};

static bool read_size(const struct checkpoint_pass_reader *reader, const char *field, int64_t *size)
{
    const cJSON *section = reader->run->section;
    return checkpoint_read_integer(section, field, size, reader->fault)
           && ((*size >= 1 && *size <= INT32_MAX)
               || fault_set(reader->fault, FAULT_OPTION,
                            "config.json's %.*s is %" PRId64 "; expected 1 to %d",
                            CHECKPOINT_FIELD_NAME(section, field), *size, INT32_MAX));
}

static bool read_delta_sizes(const struct checkpoint_pass_reader *reader, struct delta_sizes *sizes)
{
    if (!read_size(reader, "linear_num_key_heads=16", &sizes->k_heads)
        || !read_size(reader, "linear_num_value_heads=32", &sizes->v_heads)
        || !read_size(reader, "linear_key_head_dim=128", &sizes->k_dim)
        || !read_size(reader, "linear_value_head_dim=128", &sizes->v_dim))
        return false;
    if (sizes->v_heads % sizes->k_heads != 0)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json's linear_num_value_heads is %" PRId64
                         "; expected a multiple of linear_num_key_heads, %" PRId64,
                         sizes->v_heads, sizes->k_heads);
    sizes->keys = sizes->k_heads * sizes->k_dim;
    sizes->values = sizes->v_heads * sizes->v_dim;
    return true;
}

/* Takes the matrix as the next of the products. */
static bool add_product(struct model_recurrence *recurrence, struct checkpoint_pass_reader *reader,
                        const char *names, int64_t out, int64_t width)
{
    return checkpoint_pass_matrix(reader, &recurrence->in[recurrence->in_count++], names, out,
                                  width, false);
}

/* Columns: queries, keys, values, gates, betas, decays; those of one tensor for several of them lie
 * in groups by the heads of keys. */
static bool get_delta_products(struct model_recurrence *recurrence,
                               struct checkpoint_pass_reader *reader,
                               const struct delta_sizes *sizes, int64_t width)
{
    const int64_t qkv = 2 * sizes->keys + sizes->values, heads = sizes->v_heads;
    const int64_t shared = heads / sizes->k_heads, values = shared * sizes->v_dim;
    const bool is_mixed = checkpoint_pass_has(reader, "in_proj_qkvz");
    const bool has_ba = checkpoint_pass_has(reader, "in_proj_ba");
    if (is_mixed)
        recurrence->groups[0] =
            (struct model_column_groups){ .groups = sizes->k_heads,
                                          .parts = { sizes->k_dim, sizes->k_dim, values, values },
                                          .count = 4 };
    if (has_ba)
        recurrence->groups[1] = (struct model_column_groups){ .first = qkv + sizes->values,
                                                              .groups = sizes->k_heads,
                                                              .parts = { shared, shared },
                                                              .count = 2 };
    if (!(is_mixed ? add_product(recurrence, reader, "in_proj_qkvz", qkv + sizes->values, width)
                   : add_product(recurrence, reader, "in_proj_qkv", qkv, width)
                         && add_product(recurrence, reader, "in_proj_z", sizes->values, width)))
        return false;
    return has_ba ? add_product(recurrence, reader, "in_proj_ba", 2 * heads, width)
                  : add_product(recurrence, reader, "in_proj_b", heads, width)
                        && add_product(recurrence, reader, "in_proj_a", heads, width);
}

/* GGUF files have the rates. */
static bool get_stored_rates(struct checkpoint_pass_reader *reader, const float **rates,
                             int64_t heads)
{
    if (!checkpoint_pass_values_now(reader, rates, "rates", heads))
        return false;
    for (int64_t h = 0; h < heads; h++)
        if (!((*rates)[h] <= 0))
            return fault_set(reader->fault, FAULT_OPTION,
                             "a state of block %" PRId64
                             " has a rate of %g by its tensor 'rates'; expected none above 0",
                             reader->block, (double)(*rates)[h]);
    return true;
}

/* -e^A_log, a rate for each head. */
static bool get_rates(struct checkpoint_pass_reader *reader, const float **rates, int64_t heads)
{
    const float *stored;
    if (checkpoint_pass_has_values(reader, "rates"))
        return get_stored_rates(reader, rates, heads);
    float *made = arena_alloc(reader->parameters->arena, (size_t)heads * sizeof *made);
    if (!made)
        return fault_no_memory(reader->fault);
    if (!checkpoint_pass_values_now(reader, &stored, "A_log", heads))
        return false;
    for (int64_t h = 0; h < heads; h++)
        made[h] = (float)-exp((double)stored[h]);
    *rates = made;
    return true;
}

/* What is added to dt or to the numbers of decays; "dt_bias" is "dt.bias" in GGUF files. */
static bool get_time_bias(struct checkpoint_pass_reader *reader, const float **bias, int64_t heads)
{
    return checkpoint_pass_values(reader, bias, "dt_bias|dt.bias", heads);
}

/* The norm of each head, whose weight all heads share. */
static bool get_delta_norm(struct model_recurrence *recurrence,
                           struct checkpoint_pass_reader *reader, const struct delta_sizes *sizes)
{
    const float *stored;
    float *made = arena_alloc(reader->parameters->arena, (size_t)sizes->values * sizeof *made);
    if (!made)
        return fault_no_memory(reader->fault);
    if (!checkpoint_pass_values_now(reader, &stored, "norm.weight", sizes->v_dim))
        return false;
    for (int64_t i = 0; i < sizes->values; i++)
        made[i] = stored[i % sizes->v_dim];
    recurrence->norm = (struct attn_norm){ .weight = made, .eps = reader->norm_eps };
    recurrence->norm_groups = sizes->v_heads;
    return true;
}

static bool make_delta(struct model_recurrence *recurrence, struct checkpoint_pass_reader *reader,
                       int64_t width, bool heads_take_turns)
{
    struct attn_linear_attention *attention = &recurrence->attention;
    struct delta_sizes sizes;
    if (!read_delta_sizes(reader, &sizes))
        return false;
    const int64_t qkv = 2 * sizes.keys + sizes.values;
    *recurrence = (struct model_recurrence){
        .kind = MODEL_RECURRENCE_DELTA,
        .columns = qkv + sizes.values + 2 * sizes.v_heads,
        .factor_at = -1,
        .conv_gate_at = -1,
        .gate_at = qkv,
        .beta_at = qkv + sizes.values,
        .decay_at = qkv + sizes.values + sizes.v_heads,
        .attention = { .q_heads = sizes.k_heads,
                       .k_heads = sizes.k_heads,
                       .v_heads = sizes.v_heads,
                       .heads_take_turns = heads_take_turns,
                       .k_head_dim = sizes.k_dim,
                       .v_head_dim = sizes.v_dim,
                       .has_decay = true,
                       .has_beta = true,
                       .beta_is_logit = true,
                       .is_normalized = true,
                       .norm_eps = 1e-6,
                       .scale = 1 / sqrt((double)sizes.k_dim) },
        .mixed = sizes.values,
        .gate_activation = ATTN_SILU,
        .gate_follows_norm = true,
    };
    return get_delta_products(recurrence, reader, &sizes, width)
           && get_convolution(&recurrence->convolution, reader, "conv1d",
                              "linear_conv_kernel_dim=4", qkv, false)
           && checkpoint_read_activation(reader->run->section, "hidden_act=silu",
                                         &recurrence->convolution.activation, reader->fault)
           && get_rates(reader, &attention->decay_rate, sizes.v_heads)
           && get_time_bias(reader, &attention->decay_bias, sizes.v_heads)
           && get_delta_norm(recurrence, reader, &sizes)
           && checkpoint_pass_matrix(reader, &recurrence->out, "out_proj", width, sizes.values,
                                     false);
}

bool checkpoint_recurrence_delta(struct model_recurrence *recurrence,
                                 struct checkpoint_pass_reader *reader, int64_t width)
{
    return make_delta(recurrence, reader, width, false);
}

bool checkpoint_recurrence_delta_in_turn(struct model_recurrence *recurrence,
                                         struct checkpoint_pass_reader *reader, int64_t width)
{
    return make_delta(recurrence, reader, width, true);
}

/* ------------------------------------------------------------------------- Mamba-2 -- */

/* What a family calls the sizes of its mixers. */
struct mamba_fields {
    const char *heads, *groups, *state, *taps;
    const char *conv_bias, *bias; /* flags: of the convolution, of in_proj and */
    const char *out_bias;         /* of out_proj; NULL: as of in_proj */
    const char *norm;             /* a flag: there is a norm; */
    bool norm_is_of_groups;
    const char *norm_first; /* a flag: it precedes the gate; NULL: it does not */
    const char *factors;    /* a list of five, of gate, x, b, c and dt; NULL: ones */
};

/* The larger bound is Infinity, which JSON has not: newer files write {"__float__":
 * "Infinity"}. */
static bool is_infinite(const cJSON *bound)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(bound, "__float__"));
    return text && strcmp(text, "Infinity") == 0;
}

/* A list of two numbers; absent: any. */
static bool read_time_limits(struct attn_ssd *ssd, struct checkpoint_pass_reader *reader)
{
    const cJSON *limits = cJSON_GetObjectItemCaseSensitive(reader->run->section, "time_step_limit");
    const struct json_numbers *numbers = json_numbers_of(reader->run->document, limits);
    const cJSON *low = cJSON_GetArrayItem(limits, 0), *high = cJSON_GetArrayItem(limits, 1);
    ssd->dt_min = 0;
    ssd->dt_max = INFINITY;
    if (!limits || cJSON_IsNull(limits))
        return true;
    if (numbers && numbers->rank == 1 && numbers->count == 2) {
        ssd->dt_min = (double)numbers->values[0];
        ssd->dt_max = (double)numbers->values[1];
    } else if (cJSON_GetArraySize(limits) == 2 && cJSON_IsNumber(low) && is_infinite(high)) {
        ssd->dt_min = low->valuedouble;
    } else {
        ssd->dt_min = -1;
    }
    return (ssd->dt_min >= 0 && ssd->dt_min <= ssd->dt_max)
           || fault_set(reader->fault, FAULT_OPTION,
                        "config.json's time_step_limit is no list of two numbers from 0 on, the "
                        "first not above the second");
}

static bool read_mamba_sizes(struct attn_ssd *ssd, struct checkpoint_pass_reader *reader,
                             const struct mamba_fields *fields, int64_t inner)
{
    const cJSON *section = reader->run->section;
    if (!checkpoint_read_integer(section, fields->heads, &ssd->heads, reader->fault)
        || !checkpoint_read_integer(section, fields->groups, &ssd->groups, reader->fault)
        || !checkpoint_read_integer(section, fields->state, &ssd->state_dim, reader->fault)
        || !read_time_limits(ssd, reader))
        return false;
    if (ssd->heads < 1 || inner % ssd->heads != 0 || ssd->groups < 1
        || ssd->heads % ssd->groups != 0 || ssd->state_dim < 1)
        return fault_set(reader->fault, FAULT_SHAPE,
                         "config.json gives %" PRId64 " heads (%.*s) in %" PRId64
                         " groups and states of %" PRId64 " rows to mixers of %" PRId64
                         " columns; expected heads that divide the columns, and groups that "
                         "divide the heads",
                         ssd->heads, CHECKPOINT_FIELD_NAME(section, fields->heads), ssd->groups,
                         ssd->state_dim, inner);
    ssd->head_dim = inner / ssd->heads;
    return true;
}

/* The columns of a row of in_proj: gate, x, b, c, dt. */
static bool get_mamba_projections(struct model_recurrence *recurrence,
                                  struct checkpoint_pass_reader *reader,
                                  const struct mamba_fields *fields, int64_t width)
{
    struct attn_ssd *ssd = &recurrence->ssd;
    const cJSON *section = reader->run->section;
    const char *out_bias = fields->out_bias ? fields->out_bias : fields->bias;
    bool has_bias, out_has_bias, conv_has_bias;
    if (!checkpoint_read_flag(section, fields->bias, &has_bias, reader->fault)
        || !checkpoint_read_flag(section, out_bias, &out_has_bias, reader->fault)
        || !checkpoint_read_flag(section, fields->conv_bias, &conv_has_bias, reader->fault)
        || !checkpoint_pass_linear(reader, &recurrence->out, "out_proj", width, 0, false,
                                   out_has_bias)
        || !read_mamba_sizes(ssd, reader, fields, recurrence->out.in))
        return false;
    const int64_t inner = recurrence->out.in;
    const int64_t convolved = inner + 2 * ssd->groups * ssd->state_dim;
    recurrence->mixed = inner;
    recurrence->gate_at = 0;
    recurrence->convolved_at = inner;
    recurrence->dt_at = inner + convolved;
    recurrence->columns = inner + convolved + ssd->heads;
    return checkpoint_pass_linear(reader, &recurrence->in[0], "in_proj", recurrence->columns, width,
                                  false, has_bias)
           && get_convolution(&recurrence->convolution, reader, "conv1d", fields->taps, convolved,
                              conv_has_bias);
}

/* What the columns of a row of in_proj are multiplied by. */
static bool get_mamba_factors(struct model_recurrence *recurrence,
                              struct checkpoint_pass_reader *reader, const char *field)
{
    enum { PARTS = 5 };
    const struct attn_ssd *ssd = &recurrence->ssd;
    const int64_t inner = recurrence->mixed, shared = ssd->groups * ssd->state_dim;
    const int64_t sizes[PARTS] = { inner, inner, shared, shared, ssd->heads };
    float factors[PARTS];
    if (!field)
        return true;
    if (!checkpoint_read_factors(reader->run->document, reader->run->section, field, factors, PARTS,
                                 reader->fault))
        return false;
    float *scales =
        arena_alloc(reader->parameters->arena, (size_t)recurrence->columns * sizeof *scales);
    if (!scales)
        return fault_no_memory(reader->fault);
    recurrence->column_scales = scales;
    for (int part = 0; part < PARTS; part++)
        for (int64_t c = 0; c < sizes[part]; c++)
            *scales++ = factors[part];
    return true;
}

/* A norm that config.json does not ask for would be left out. */
static bool get_mamba_norm(struct model_recurrence *recurrence,
                           struct checkpoint_pass_reader *reader, const struct mamba_fields *fields)
{
    static const char NAME[] = "norm.weight";
    const cJSON *section = reader->run->section;
    bool has_norm;
    if (!checkpoint_read_flag(section, fields->norm, &has_norm, reader->fault)
        || !checkpoint_read_flag(section, fields->norm_first, &recurrence->gate_follows_norm,
                                 reader->fault))
        return false;
    if (fields->norm_is_of_groups)
        recurrence->norm_groups = recurrence->ssd.groups;
    if (has_norm)
        return checkpoint_pass_values(reader, &recurrence->norm.weight, NAME, recurrence->mixed);
    return !checkpoint_pass_has_values(reader, NAME)
           || fault_set(reader->fault, FAULT_FIELD,
                        "the file has a %s of block %" PRId64
                        ", and by config.json (%.*s) there is none",
                        NAME, reader->block, CHECKPOINT_FIELD_NAME(section, fields->norm));
}

static bool get_mamba(struct model_recurrence *recurrence, struct checkpoint_pass_reader *reader,
                      const struct mamba_fields *fields, int64_t width)
{
    struct attn_ssd *ssd = &recurrence->ssd;
    *recurrence = (struct model_recurrence){ .kind = MODEL_RECURRENCE_SSD,
                                             .in_count = 1,
                                             .factor_at = -1,
                                             .conv_gate_at = -1,
                                             .gate_activation = ATTN_SILU,
                                             .norm_groups = 1,
                                             .norm.eps = reader->norm_eps };
    recurrence->convolution.activation = ATTN_SILU;
    return get_mamba_projections(recurrence, reader, fields, width)
           && get_mamba_factors(recurrence, reader, fields->factors)
           && get_rates(reader, &ssd->a, ssd->heads)
           && get_time_bias(reader, &ssd->dt_bias, ssd->heads)
           && checkpoint_pass_values(reader, &ssd->d, "D", ssd->heads)
           && get_mamba_norm(recurrence, reader, fields);
}

/* The names that Bamba's config.json has, with its defaults; Falcon-H1 took both. */
#define BAMBA_FIELDS                                                                               \
    .heads = "mamba_n_heads=128", .groups = "mamba_n_groups=1", .state = "mamba_d_state=256",      \
    .taps = "mamba_d_conv=4", .conv_bias = "mamba_conv_bias=true", .bias = "mamba_proj_bias"

/* Source: BambaMixer and BambaRMSNormGated of bamba/modeling_bamba.py. */
bool checkpoint_recurrence_bamba(struct model_recurrence *recurrence,
                                 struct checkpoint_pass_reader *reader, int64_t width)
{
    static const struct mamba_fields FIELDS = { BAMBA_FIELDS, .norm = "=true" };
    return get_mamba(recurrence, reader, &FIELDS, width);
}

/* Source: FalconH1Mixer and FalconH1RMSNormGated of falcon_h1/modeling_falcon_h1.py. */
bool checkpoint_recurrence_falcon_h1(struct model_recurrence *recurrence,
                                     struct checkpoint_pass_reader *reader, int64_t width)
{
    static const struct mamba_fields FIELDS = { BAMBA_FIELDS,
                                                .out_bias = "projectors_bias",
                                                .norm = "mamba_rms_norm",
                                                .norm_is_of_groups = true,
                                                .norm_first = "mamba_norm_before_gate=true",
                                                .factors = "ssm_multipliers" };
    return get_mamba(recurrence, reader, &FIELDS, width)
           && checkpoint_read_activation(reader->run->section, "hidden_act=silu",
                                         &recurrence->convolution.activation, reader->fault);
}

/* Source: NemotronHMamba2Mixer of nemotron_h/modular_nemotron_h.py, Zamba2RMSNormGated. */
bool checkpoint_recurrence_nemotron(struct model_recurrence *recurrence,
                                    struct checkpoint_pass_reader *reader, int64_t width)
{
    static const struct mamba_fields FIELDS = { .heads = "mamba_num_heads=128",
                                                .groups = "mamba_n_groups|n_groups=8",
                                                .state = "ssm_state_size=128",
                                                .taps = "mamba_d_conv|conv_kernel=4",
                                                .conv_bias = "mamba_conv_bias|use_conv_bias=true",
                                                .bias = "use_bias",
                                                .norm = "=true",
                                                .norm_is_of_groups = true };
    return get_mamba(recurrence, reader, &FIELDS, width);
}
