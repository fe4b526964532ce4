/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - builds layers from a published checkpoint, by its own config.json and the names
 * that its tensors have there. checkpoint_family.h has the tables of families. */
#ifndef ATTND_CHECKPOINT_H
#define ATTND_CHECKPOINT_H

#include "models/checkpoint/checkpoint_family.h"
#include "models/model/model.h"
#include "models/model/model_parameters.h"

enum { CHECKPOINT_STACKS_MAX = 4, CHECKPOINT_PREFIX_BYTES = 64, CHECKPOINT_NAME_BYTES = 256 };

/* One stack of layers that the checkpoint has. */
struct checkpoint_run {
    const struct checkpoint_stack *stack;
    const struct json_document *document; /* config.json */
    const cJSON *section;                 /* its object that has the stack's fields */
    char prefix[CHECKPOINT_PREFIX_BYTES];
    int64_t layer_count;
    int64_t inner_count; /* consecutive layers that share one number in tensors' names */
};

struct checkpoint_gguf;

struct checkpoint {
    struct json_document config;
    const char *type; /* the model_type of config; "meta" or "mistral_params" for params.json of
                         their own releases */
    const struct checkpoint_gguf *gguf; /* of a GGUF file (checkpoint_gguf.h), else NULL */
    struct checkpoint_stack amended[CHECKPOINT_STACKS_MAX]; /* stacks as a GGUF file has them */
    const struct checkpoint_stack *stacks; /* of the family; NULL: it is not known */
    int stack_count;
    struct checkpoint_run runs[CHECKPOINT_STACKS_MAX];
    int run_count;
    int64_t layer_count;  /* of all runs; layers are numbered through all of them */
    int64_t fp8_block[2]; /* as in struct model_parameters */
};

/* Reads the text of a config.json. *is_published: it is that of a published checkpoint. Where it is
 * not, and on false, checkpoint is empty. The fault's pointer begins with /config. */
bool checkpoint_read(struct checkpoint *checkpoint, const char *text, bool *is_published,
                     struct fault *fault);

/* Finds the stacks that the tensors have. On false the fault says what the config or the file
 * lacks; for an unknown family it says what checkpoint_refuse_family() says. */
bool checkpoint_find(struct checkpoint *checkpoint, const struct model_tensors *tensors,
                     struct fault *fault);

/* Fills layers[checkpoint->layer_count]. */
bool checkpoint_build(struct model_layer *layers, const struct checkpoint *checkpoint,
                      struct model_parameters *parameters, struct fault *fault);

/* Builds what surrounds the attention layers, the pass, of a checkpoint whose layers are built. On
 * true either *forward is set, or *reason says in one sentence why there is none: both lie in the
 * arena of parameters. The fault is memory. */
bool checkpoint_pass_build(const struct model_forward **forward, const char **reason,
                           const struct checkpoint *checkpoint, const struct model_layer *layers,
                           struct model_parameters *parameters, struct fault *fault);

void checkpoint_free(struct checkpoint *checkpoint);

/* Sets model->pixels where the model takes pixels: from the text of its preprocessor_config.json,
 * which may be NULL, or what the family was made with where there is none or it is refused; refused
 * may say why before the text is read. False: no memory. */
bool checkpoint_pixels_set(struct model *model, const char *text, const char *refused,
                           struct fault *fault);

/* Sets model->speech where the model takes samples of sound. As checkpoint_pixels_set(). */
bool checkpoint_speech_set(struct model *model, const char *text, const char *refused,
                           struct fault *fault);

/* Sets model->vectors from modules.json in the folder and what that names, or from a lone
 * 1_Pooling/config.json. Links may lead to files below root; root NULL: anywhere. A file that is
 * refused is a reason in the model. False: no memory. */
bool checkpoint_vectors_set(struct model *model, const char *folder, const char *root,
                            struct fault *fault);

/* Sets the model's end_ids from the texts of its config.json and the files beside it, NULL where
 * there is none. The tokenizer is open; find is tokenizer_find(). False: no memory. */
typedef int32_t checkpoint_find_token(const struct tokenizer *tokenizer, const char *token);
bool checkpoint_ends_set(struct model *model, const char *const *texts, int count,
                         checkpoint_find_token *find, struct fault *fault);

/* Sets the model's head_weights from the text of its head_weights.json, which may be NULL; refused
 * may say why before the text is read. False: no memory. */
bool checkpoint_head_weights_set(struct model *model, const char *text, const char *refused,
                                 struct fault *fault);

/* Sets the model's align_heads, of its cross attention, from the text of its
 * generation_config.json. As checkpoint_head_weights_set(). */
bool checkpoint_align_set(struct model *model, const char *text, const char *refused,
                          struct fault *fault);

/* ---------------------------------------------------- for checkpoint*.c only -- */

/* Whether names, "roberta|camembert", has model_type. */
bool checkpoint_has_type(const char *names, const char *model_type);

/* What is refused because something of it is not understood (checkpoint_check.c): without it the
 * numbers could be wrong, and nobody would know. */

/* Refuses a checkpoint that is quantised, by GPTQ, AWQ, bitsandbytes and others, as config.json or
 * the names of its tensors say. Takes FP8 in blocks, whose size it sets, and MXFP4 where the
 * family's row has it. The fault is dtype. */
bool checkpoint_check_quantised(struct checkpoint *checkpoint, const struct model_tensors *tensors,
                                struct fault *fault);

/* Passes fields of config.json that the family's rows read; fields that are null, false or empty;
 * and fields that change no attention, which are listed here for all families and in a row for its
 * own. Any other field is a fault that names it. */
bool checkpoint_check_fields(const struct checkpoint *checkpoint, struct fault *fault);

/* Sets the fault of a family that is not known, or whose tensors the file does not have, and
 * returns false (checkpoint_unknown.c): what the file's attention has that no config of ours can
 * say, which known family is nearest, and which config to write instead. */
bool checkpoint_refuse_family(const struct checkpoint *checkpoint,
                              const struct model_tensors *tensors, struct fault *fault);

#endif
