/* checkpoint.h - a published checkpoint: its own config.json and its tensors' own names, put
 * together to layers.
 *
 * Which families there are, and how each of them is built, is the table of checkpoint_families.h.
 */
#ifndef ATTND_CHECKPOINT_H
#define ATTND_CHECKPOINT_H

#include "checkpoint/checkpoint_families.h"
#include "model/model.h"
#include "model/model_parameters.h"

enum { CHECKPOINT_STACKS_MAX = 4, CHECKPOINT_PREFIX_BYTES = 64, CHECKPOINT_NAME_BYTES = 256 };

/* A stack of layers that the checkpoint has. */
struct checkpoint_run {
    const struct checkpoint_stack *stack;
    const struct json_document *document; /* all of config.json, */
    const cJSON *section;                 /* and what of it has the stack's fields */
    char prefix[CHECKPOINT_PREFIX_BYTES];
    int64_t layer_count;
    int64_t
        inner_count; /* of them, one after the other, have a number of their family's together */
};

struct checkpoint {
    struct json_document config;
    struct checkpoint_run runs[CHECKPOINT_STACKS_MAX];
    int run_count;
    int64_t layer_count; /* of all runs, which are numbered one after the other */
};

/* Reads the text of a config.json. *is_published says whether it is one of a published checkpoint;
 * where it is not, or on false, checkpoint is empty. Pointers begin with /config. */
bool checkpoint_read(struct checkpoint *checkpoint, const char *text, bool *is_published,
                     struct fault *fault);

/* Finds the stacks that the tensors have. On false the fault says what the config or the file
 * lacks, or that the family is unknown, and then what to write. */
bool checkpoint_find(struct checkpoint *checkpoint, const struct model_tensors *tensors,
                     struct fault *fault);

/* Fills layers[checkpoint->layer_count]. */
bool checkpoint_build(struct model_layer *layers, const struct checkpoint *checkpoint,
                      struct model_parameters *parameters, struct fault *fault);

void checkpoint_free(struct checkpoint *checkpoint);

#endif
