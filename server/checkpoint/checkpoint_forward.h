/* checkpoint_forward.h - the tables of what stands around the attention of families of published
 * checkpoints: embedding, norms, feed-forward, head. A row is one stream of rows (model_forward.h).
 *
 * The source of a row is the family's modeling file in Hugging Face transformers,
 * src/transformers/models/<family>; the tests name the commit. To add a family:
 *
 * 1. Choose the table, as checkpoint_families.h says; encoders with decoders are in
 *    checkpoint_forward_seq2seq.c, families that take pixels in checkpoint_forward_images.c. Rows
 * of one model_type stand one after the other, encoder first.
 * 2. Write what the family has. Leave out what it does not have: a name of NULL is no such step.
 *    What no member can say, adjust() changes in a copy of the row, by the fields of config.json.
 * 3. Take the fields that the row reads out of the family's ignored (checkpoint_families.h). Name
 *    those that only adjust() reads in reads.
 * 4. Test it in tests/unit/test_checkpoint_forward*.c: a small checkpoint with the published names
 *    gives the expected data, and one that lacks a tensor gives a reason.
 *
 * Fields of config.json are written as in checkpoint_families.h, "n_embd|hidden_size=768"; a flag
 * that is always set is "=true", a number that is always the same "=0.00001".
 *
 * Names of tensors are without ".weight" and ".bias". They follow the prefix that the stream's
 * attention layers have, those of a block also row->layer. A name that begins with "/" stands as it
 * is. Of "a|b" the first that the file has counts. */
#ifndef ATTND_CHECKPOINT_FORWARD_H
#define ATTND_CHECKPOINT_FORWARD_H

#include "checkpoint/checkpoint.h"
#include "model/model_forward.h"

/* The norms around attention or a feed-forward (struct model_part). */
struct checkpoint_norms {
    const char *before, *inside, *after;
};

struct checkpoint_forward_row {
    const char *model_type; /* names of the family in config.json, "roberta|camembert" */
    const char *refused;    /* why the family's pass is not there; NULL: it is */
    const char *name;       /* of the stream; NULL: the model has only one */
    const char *kind;       /* of its layers of self attention; NULL: "self" */
    const char *cross_kind; /* of its layers of attention to the first stream; NULL: none */

    const char *tokens;        /* [vocabulary, width] */
    const char *scale;         /* a number that tokens are multiplied by; NULL: 1 */
    const char *root_scale_if; /* a flag: tokens are multiplied by the root of the width */
    /* token_projection has no bias; each is there only where the tokens are not as wide as the
     * layers, but a projection that is_always is there in any case. */
    const char *token_projection, *projection;
    bool projection_is_always;
    const char *positions;       /* [count, width] */
    const char *position_offset; /* a number: row i takes position i + offset */
    const char *padding;         /* the padding token, where positions count from it: RoBERTa */
    const char *types;
    const char *embedding_norm;

    /* Positions that the file need not have: fills the row of one position, in double. The row of
     * the padding token is 0. */
    void (*sinusoid)(double *row, int64_t position, int64_t width);
    const char *position_count; /* of positions from position_offset on; needed with sinusoid */

    /* In place of tokens: two convolutions of 3 columns over features, the second one with stride
     * 2. */
    const char *convolutions[2];
    const char *feature_count, *feature_positions; /* fields: columns, and rows after both */

    /* Or square patches of pixels, after class rows. class_rows and patch_positions are whole names
     * of tensors; the rest are fields. */
    const char *patches;
    bool patches_have_no_bias;
    const char *class_rows[2];
    const char *patch_positions; /* [class rows and patches][width] */
    const char *image_size, *patch_size, *channels;
    const struct model_pixel_range *pixel_range; /* what the family was made with */

    const char *layer; /* "encoder.layer.%.", the prefix of a block */
    struct checkpoint_norms attention, cross_attention, feed_forward;
    const char *parallel; /* a flag: attention and feed-forward read the same rows */
    const char *residual_scale;
    const char *attention_scales, *feed_forward_scales; /* a number for each column; whole names */

    bool norm_is_centred;
    bool norm_adds_one;    /* to the weight in the file */
    bool norm_is_bare;     /* norms have no tensors */
    const char *norm_bias; /* a flag */
    const char *norm_eps;

    const char *gate, *up, *down;
    bool up_has_gate;   /* the tensor of up holds the outputs of the gate, then those of up */
    bool in_out;        /* matrices of the feed-forward are [in, out] */
    const char *biases; /* a flag: the feed-forward has biases */
    const char *activation;
    const char *router; /* of a mixture of experts; gate, up and down then follow expert */
    const char *expert; /* "block_sparse_moe.experts.%."; % is the number of the expert */
    const char *expert_count, *chosen_count;

    const char *final_norm;

    /* The head, in the row of the last stream. Names of its tensors often begin with "/". */
    const char *transform; /* without this tensor the file has no head */
    const char *head_activation, *head_norm;
    const char *head_projection; /* without bias, in place of transform; there only where the
                                    tokens are not as wide as the layers */
    const char *output;
    const char *output_bias;           /* whole names; NULL: none */
    bool output_bias_if_any;           /* it is 0 where the file has none */
    const char *tied;                  /* a flag: output is the table of tokens */
    bool tied_if_absent;               /* it is that table too where the file has no output */
    const char *logit_scale;           /* a number; NULL: 1 */
    const char *logit_divisor;         /* a number */
    const char *logit_root_divisor_if; /* a flag: logits are divided by the root of the width */
    const char *logit_softcap;
    const char *start; /* the decoder's first token */

    bool (*adjust)(struct checkpoint_forward_row *row, const cJSON *section, struct fault *fault);
    const char *reads; /* fields that only adjust() reads */
};

/* The row of a family's stream by the kind of its layers, of self attention or of cross attention;
 * NULL: the whole pass of the family, or of these layers, is not there. */
const struct checkpoint_forward_row *checkpoint_forward_find(const char *model_type,
                                                             const char *kind);

/* Builds the pass of a checkpoint whose layers are built. On true either *forward is set, or
 * *reason says in one sentence why there is none: both lie in the arena of parameters. The fault is
 * memory. */
bool checkpoint_forward_build(const struct model_forward **forward, const char **reason,
                              const struct checkpoint *checkpoint, const struct model_layer *layers,
                              struct model_parameters *parameters, struct fault *fault);

/* The tables. Each ends with a row whose model_type is NULL. */
extern const struct checkpoint_forward_row checkpoint_forward_encoders[];
extern const struct checkpoint_forward_row checkpoint_forward_seq2seq[];
extern const struct checkpoint_forward_row checkpoint_forward_decoders[];
extern const struct checkpoint_forward_row checkpoint_forward_llamas[];
extern const struct checkpoint_forward_row checkpoint_forward_images[];

#endif
