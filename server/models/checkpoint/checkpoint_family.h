/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_family.h - the tables of families of published checkpoints: how a family names, fuses
 * and lays out its attention, what surrounds it, and where its config.json says the rest. A row
 * is one stack of layers; a family whose layers are of one kind is one row.
 *
 * The source of a row is the family's modeling and configuration file in Hugging Face transformers,
 * src/transformers/models/<family>; the tests name the commit. To add a family:
 *
 * 1. Choose the table: checkpoint_hybrids.c where some layers are no attention,
 *    checkpoint_mixtures.c for mixtures of experts, checkpoint_llamas.c for tensors that have the
 *    names of Llama or Meta, and checkpoint_llamas_newer.c for such families from 2024 on,
 *    checkpoint_gemmas.c for those whose blocks read tokens,
 *    checkpoint_encoders.c for encoders of text, checkpoint_sentences.c for those whose source is
 * on the Hub, checkpoint_seq2seq.c for encoders with decoders, checkpoint_images.c for pictures and
 * sound, else checkpoint_decoders.c.
 * 2. Write a row for each kind of its layers, one after the other: self, or encoder, decoder and
 *    cross. Leave out what it does not have: a name of NULL is no such step. What no member can
 *    say is for has_window, number or adjust.
 * 3. List in ignored the fields of config.json that change no number: others are refused.
 * 4. Write out its forward() in tests/unit/test_checkpoint_*.c and compare; test the pass in
 *    test_checkpoint_forward*.c, and its numbers in tests/http/test_trace_*.c. Put a published
 *    config.json into tests/unit/published_configs.json.
 * 5. Name it in API_MODELS.md, "Published checkpoints".
 *
 * Members of a row write a field of config.json with all the names that it has had and its default:
 *
 *     "n_head|num_attention_heads=12"
 *
 * The first of these names that config.json has counts; a name whose value is null counts only if
 * it is the last. "a.b" is the field b of the object a. Without "=" the default is 0 or false;
 * without a name the value is always the one after "="; NULL is the same as "". A value of null is
 * 0 or false.
 *
 * Names of tensors are without ".weight" and ".bias". Those of attention follow prefix, block and
 * attention. Those of the pass follow the prefix and, in a block, block; a name that begins with
 * "/" is whole, and of "a|b" the first that the file has counts. */
#ifndef ATTND_CHECKPOINT_FAMILY_H
#define ATTND_CHECKPOINT_FAMILY_H

#include "layer.h"
#include "models/model/model_forward.h"
#include "models/model/model_names.h"
#include "json/json.h"

struct checkpoint_layer;
struct checkpoint_pass_reader;
struct checkpoint_run;

enum checkpoint_fusion {
    CHECKPOINT_SEPARATE, /* a tensor for each projection */
    CHECKPOINT_ROWS,     /* one tensor of all queries, then all keys, then all values */
    CHECKPOINT_GROUPS,   /* one tensor; for each key/value head its queries, its key, its value */
    CHECKPOINT_QUARTERS, /* one tensor; four times a quarter of all queries, values, keys */
    CHECKPOINT_KEYS      /* a tensor of queries; another one of all keys, then all values */
};

/* The norms around attention or a feed-forward (struct model_part). */
struct checkpoint_norms {
    const char *before, *inside, *after;
};

/* What surrounds the attention of a stack: embedding, norms, feed-forward, head. It is one
 * stream of rows (model_forward.h). */
struct checkpoint_pass {
    const char *refused;    /* why the family's pass is not computed; NULL: it is */
    const char *name;       /* of the stream; NULL: the model has only one */
    const char *cross_kind; /* of its layers of attention to the first stream; NULL: none */
    const char
        *beside_kind; /* of its layers beside attention, which recurrence makes; NULL: none */

    const char *tokens; /* [vocabulary, width]; NULL where the stream takes something else */
    /* token_projection has no bias; each is there only where the tokens are not as wide as the
     * layers, but a projection that is_always is there in any case. */
    const char *token_projection, *projection;
    bool projection_is_always;
    const char *positions; /* [count, width] */
    const char *types;
    const char *embedding_norm;
    double dropout_ratio; /* struct model_embedding; set by adjust() */
    int64_t dropout_id;

    /* Positions that the file need not have: fills the row of one position, in double. The row of
     * the padding token is 0. */
    void (*sinusoid)(double *row, int64_t position, int64_t width);

    /* In place of tokens: two convolutions of 3 columns over features, the second one with stride
     * 2. */
    const char *convolutions[2];

    /* Or samples of sound, under the names of wav2vec 2.0 (checkpoint_sound.c). */
    bool takes_sound;

    /* Or square patches of pixels, after class rows. class_rows, register_rows and patch_positions
     * are whole names of tensors. */
    const char *patches;
    bool patches_have_no_bias;
    bool patches_end_with_channel; /* the tensor is [out, row, column, channel] */
    const char *class_rows[2];
    const char *register_rows;   /* [count, width], behind the class rows; they have no positions */
    const char *patch_positions; /* [class rows and patches][width] */
    enum model_resize resize;    /* of positions, for pictures that are not of image_size */
    const struct model_pixel_range *pixel_range; /* what the family was made with */

    struct checkpoint_norms attention, cross_attention, feed_forward;
    const char *attention_scales, *feed_forward_scales; /* a number for each column; whole names */
    bool norm_is_centred;
    bool norm_adds_one;     /* to the weight in the file */
    bool norm_is_bare;      /* norms have no tensors */
    bool inside_adds_rows;  /* before the norm inside of attention: struct model_part */
    bool first_has_no_norm; /* there is none before the attention of the first block */

    /* What a block reads of tokens themselves (struct model_token_inputs); layer_tokens NULL, or a
     * width of 0: nothing. The first three are of the stream, the others of a block. */
    const char *layer_tokens, *layer_projection, *layer_projection_norm;
    const char *layer_gate, *layer_up, *layer_norm;
    bool has_altup; /* a token has several rows (struct model_altup), as checkpoint_altup.c names
                       it */
    const char *block_scale; /* a number that rows are multiplied by behind a block; whole name */

    const char *gate, *up, *down;
    const char *xielu;   /* "mlp.act_fn.", what names of that activation's numbers begin with */
    bool up_has_gate;    /* the tensor of up holds the outputs of the gate, then those of up */
    bool gate_is_last;   /* the other way round */
    bool up_has_no_bias; /* nor has the gate, whatever biases says of down */
    bool in_out;         /* matrices of the feed-forward are [in, out] */

    /* A mixture of experts in the blocks that has_experts says, NULL: in all. There gate, up and
     * down follow expert, "block_sparse_moe.experts.%.", in which % is the number of the expert;
     * those of an expert that computes every row follow shared_expert; those of the other blocks
     * follow dense, NULL: nothing. */
    const char *router; /* NULL: no mixture */
    const char *expert, *shared_expert, *dense;
    const char *shared_gate; /* what the shared expert's rows are multiplied by the sigmoid of */
    bool (*has_experts)(const struct checkpoint_run *run, int64_t block);

    /* Norms of a mixture that has its own (struct model_expert_norms): that of the router has a
     * weight of this name, whole, times the root of 1 / width; NULL: there are none. */
    const char *router_scale;
    const char *experts_before, *experts_after, *shared_after;
    const char *expert_scales; /* of their weights; whole name */

    bool router_has_bias;
    bool router_is_sigmoid;    /* else the weights are a softmax */
    const char *choice_bias;   /* the tensor that choice adds to sigmoids; whole name, in a block */
    double weight_sum_eps;     /* struct model_experts */
    bool router_weighs_inputs; /* of experts, by sigmoids, in place of what they compute */

    /* The same experts in two tensors [expert, out, in], where the file has the first of them: the
     * outputs of the gate and then those of up, or of both in turn; down. Names of their biases,
     * [expert, out], end with "_bias". */
    const char *stacked_up, *stacked_down;
    bool stacked_alternates, stacked_in_out, stacked_has_bias;
    bool stacked_may_be_mxfp4; /* in "_blocks" and "_scales", [expert, out, in] in any case */
    bool up_adds_one;          /* to what the gate multiplies */

    const char *final_norm;
    const char *contacts; /* a regression over maps (struct model_contacts); NULL: none */
    int64_t contacts_end; /* its end_id */

    /* The head, in the row of the last stream. Names of its tensors often begin with "/". */
    const char *transform; /* without this tensor the file has no head */
    bool transform_has_no_bias;
    const char *head_norm;
    const char *head_projection; /* without bias, in place of transform; there only where the
                                    tokens are not as wide as the layers */
    const char *output;
    const char *output_bias; /* whole names; NULL: none */
    bool output_bias_if_any; /* it is 0 where the file has none */
    bool output_bias_tells;  /* a file without it has no head over tokens */
    bool tied_if_absent;     /* output is the table of tokens where the file has no output */

    bool (*adjust)(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault);

    /* Of layers without attention (other_kind of the row) that are recurrences: what precedes names
     * of their tensors in the block, "mamba.", and what makes one of them
     * (checkpoint_recurrence.c). The fields that it reads are in reads. */
    bool parts_are_blocks; /* a block is attention, a recurrence or, where its kind is
                              MODEL_FEED_FORWARD, the feed-forward alone */
    const char *recurrent;
    bool (*recurrence)(struct model_recurrence *recurrence, struct checkpoint_pass_reader *reader,
                       int64_t width);

    /* Fields of config.json. */
    union {
        struct {
            const char *scale;         /* a number that tokens are multiplied by; NULL: 1 */
            const char *root_scale_if; /* a flag: tokens are multiplied by the root of the width */
            const char *position_offset; /* a number: row i takes position i + offset */
            const char *padding; /* the padding token, where positions count from it: RoBERTa */
            const char *position_count; /* of positions from position_offset on; with sinusoid */
            const char *feature_count, *feature_positions; /* columns, and rows after both */
            const char *image_size, *patch_size, *channels;
            const char *patch_count; /* in place of image_size, of a square; NULL: see there */
            const char *register_count;
            const char *parallel; /* a flag: attention and feed-forward read the same rows */
            const char *residual_scale;
            const char *attention_in, *attention_out; /* numbers that rows are multiplied by behind
                                                         the norm before attention, and what it
                                                         adds; NULL: 1 */
            const char *beside_in, *beside_out;       /* the same of what stands beside it */
            const char *feed_scales; /* a list of two: of the gate, and of what is added; NULL: 1 */
            const char *norm_bias;   /* a flag */
            const char *norm_eps;
            const char *biases; /* a flag: the feed-forward has biases */
            const char *activation, *head_activation;
            const char *layer_width; /* of what a block reads of tokens */
            const char *gated_limit; /* a number: of the gate and of what it multiplies; 0: none */
            const char *expert_count, *chosen_count;
            const char *normalized;   /* a flag: weights of the chosen experts sum up to 1 */
            const char *expert_scale; /* a number that these weights are multiplied by; 0: 1 */
            const char *group_count, *chosen_group_count; /* of experts; 1 or less: no groups */
            const char *jitter;      /* a number: SparseMixer chooses the experts; NULL: softmax */
            const char *tied;        /* a flag: output is the table of tokens */
            const char *logit_scale; /* a number; NULL: 1 */
            const char *logit_divisor;
            const char *logit_root_divisor_if; /* a flag: divided by the root of the width */
            const char *logit_softcap;
            const char *start; /* the decoder's first token */
            const char *reads; /* fields that only functions of the row read */
        };
        const char *fields[40]; /* the same, as a list */
    };
};

/* The tensors of a latent layer (struct attn_latent) beside its k_proj and o_proj. */
struct checkpoint_latent {
    const char *q_down, *q_norm, *q_up; /* of queries where query_rank is not 0; */
    const char *q;                      /* else the only one */
    const char *row_norm;
    const char *up;          /* for each head the rows of its keys, then those of its values */
    const char *k_up, *v_up; /* where there is no up: [heads, rank, columns of a key] and [heads,
                                columns of a value, rank]; NULL: there always is */
};

/* A row: layers that are named and built alike. */
struct checkpoint_stack {
    const char *model_type; /* names of the family in config.json, "bert|electra" */
    const char *kind;       /* of the layers, for clients: "self", "cross", "encoder", ... */
    const char *section;    /* the object of config.json that has the fields, "a|b": the first that
                               there is; NULL: config.json itself */
    bool section_is_needed; /* without the section there are no such layers */
    const char *prefixes;   /* that names of tensors may begin with; "bert.|" is "bert." or none */
    const char *block;      /* "encoder.layer.%."; % is the number of the layer, a second % the
                               number of the inner layer within it */
    const char *attention;  /* "attention.", after block */
    const char *told_by;    /* a tensor after attention: a file without it has no such layers; with
                               "!" before the name, a file with it; NULL: none */
    const char *projections[MODEL_PROJECTION_COUNT]; /* NULL: in the fused tensor before it, or of a
                                                        latent layer */
    const struct checkpoint_latent *latent;          /* NULL: the layer is no latent one */
    enum checkpoint_fusion fusion;
    bool q_has_gate; /* the tensor of queries holds of each head its query and then the gate of its
                        context */
    bool in_out;     /* matrices are [in, out] */
    unsigned biases; /* the projections that have one, 1 << projection each */
    unsigned more_biases; /* those that have one only where the flag more_biases_if is set */

    const char *norms[2]; /* of query and key; a % is the head, where each head has its own tensor;
                             NULL: no norms */
    enum attn_norm_scope norm_scope;
    bool norm_is_centred, norm_has_bias;
    bool norm_adds_one;     /* to the weight in the file */
    bool norms_follow_rope; /* else the rotary embedding follows them */
    bool norms_are_bare;    /* they have no tensors, and norms no names */
    bool values_are_normed; /* each head, by norm_eps, without a tensor */

    bool rope_needs_window;   /* only layers with a window have the embedding */
    bool interleaved;         /* a pair is two neighbouring columns */
    const char *scaling_type; /* the scaling's rope_type where it has none */
    bool queries_grow;        /* by llama_4_scaling_beta of the scaling */
    bool alpha_scales_theta;  /* the alpha of a scaling that is "dynamic", and nothing else of it */
    bool has_mscales;         /* LongRoPE's short_mscale and long_mscale: its attention_factor */
    bool rope_has_sections; /* mrope_section and mrope_interleaved of the scaling: which columns are
                               turned by which of three positions, which are the same in a text */
    bool unscaled;          /* the scale is 1 */
    bool (*has_window)(const cJSON *section, int64_t index); /* of a layer; NULL: all do */
    bool alibi_is_scaled; /* slopes are multiplied by the scale of the scores */
    const char *sinks; /* the tensor of a layer\'s sinks, named as those of attention; NULL: none */
    const char *bias_table;   /* T5's relative position bias, of layer 0; NULL: none */
    const char *gate;         /* what names of a gate's tensors for it begin with; NULL: none */
    const char *shared_table; /* the same of all layers, after the prefix: MPNet's; NULL: none */
    const char *distances;    /* BERT's rows for relative positions, where position_embedding_type
                                 asks for them; NULL: none */
    const char
        *distance_rows; /* DeBERTa's rows for relative positions, after the prefix; NULL: none */
    const char *distance_norm;      /* the norm of these rows, after the prefix */
    const char *row_projections[2]; /* of these rows, for queries and for keys, where they are not
                                       those of keys and queries */
    const char *image_bias;         /* BEiT's, where the flag image_bias_if is set */
    const char *shared_bias;        /* BEiT's of all layers, after the prefix */
    const char *expected;           /* fields that must have the value after "=", "a.b=true|c=3" */

    int64_t (*number)(const cJSON *section, int64_t index); /* in tensors' names; NULL: the index */

    /* The kind of a layer that has no attention, for clients; NULL: it has. Without the function
     * all layers have. */
    const char *(*other_kind)(const struct checkpoint_run *run, int64_t index);
    bool (*adjust)(struct checkpoint_layer *layer, struct fault *fault); /* what no field says */

    /* Fields of config.json. */
    union {
        struct {
            const char *layers, *width, *q_heads;
            const char *further;           /* layers behind these in the file, which no pass has */
            const char *kv_heads;          /* 0: q_heads */
            const char *head_dim;          /* 0: width / q_heads */
            const char *rank, *query_rank; /* of a latent layer: columns of a row that all heads
                                              share, and of what precedes queries, 0: nothing; */
            const char *key_dim, *value_dim; /* columns of a head without a position, and of its
                                                values. rotary_dim is that of the others */
            const char *more_biases_if;
            const char *causal;
            const char *both_ways; /* the flag by which a causal family looks both ways */
            const char *clip;      /* the largest magnitude of projected numbers; 0: any */
            const char *norms_if;  /* there are norms only where this flag is set; NULL: always */
            const char *norm_eps;
            const char *theta;           /* of the rotary embedding; NULL: the family has none */
            const char *rope_if;         /* the flag of the embedding; NULL: always */
            const char *llama3_if;       /* where this flag is set it is scaled as in Llama 3.1 */
            const char *local_theta;     /* theta of layers with a window; NULL: the same theta */
            const char *rotary_fraction; /* the part of head_dim that is rotated; 0: all of it */
            const char *rotary_dim;      /* the same in columns; 0: as rotary_fraction says */
            const char *scaling;         /* the object that scales it; NULL: rope_scaling */
            const char *positions;       /* the length that the model is made for */
            const char *original_positions; /* the length that it was trained for before it was
                                               scaled; NULL: original_max_position_embeddings */
            const char *scale;              /* 0: see scale_from */
            const char *scale_from;         /* 1/sqrt of this; 0: of head_dim */
            const char *softcap;
            const char *window;    /* the number of keys that a row sees; 0: all */
            const char *chunk;     /* the number of positions in a chunk, in place of a window; 0:
                                      there are no chunks */
            const char *alibi;     /* a flag: slopes of the ALiBi paper, no rotary embedding */
            const char *alibi_max; /* 8 in the paper, and where this is NULL */
            const char *buckets, *max_distance;         /* of bias_table */
            const char *image_bias_if, *shared_bias_if; /* flags */
            const char *inner;   /* how many attention layers each of layers is; NULL: one */
            const char *refused; /* fields that must be null, 0 or false, "qk_ln|prefix_lm" */
            const char *reads;   /* fields that the row's functions read */
            const char *ignored; /* fields that change no number, as shell patterns: see
                                    checkpoint_check.c */
        };
        const char *fields[40]; /* the same, as a list */
    };

    struct checkpoint_pass pass; /* zeroed: these layers belong to no pass, or to that of the stack
                                    that names their kind */
};

/* The tables. Each ends with a row whose model_type is NULL. */
extern const struct checkpoint_stack checkpoint_llamas[], checkpoint_llamas_newer[],
    checkpoint_gemmas[], checkpoint_mixtures[], checkpoint_decoders[], checkpoint_encoders[],
    checkpoint_sentences[], checkpoint_images[], checkpoint_seq2seq[], checkpoint_hybrids[];
#define CHECKPOINT_TABLES                                                                          \
    {                                                                                              \
        checkpoint_llamas, checkpoint_llamas_newer, checkpoint_gemmas, checkpoint_mixtures,        \
            checkpoint_decoders, checkpoint_encoders, checkpoint_sentences, checkpoint_images,     \
            checkpoint_seq2seq, checkpoint_hybrids                                                 \
    }

#endif
