/* model_rope.h - the rotary embedding of a model's config. */
#ifndef ATTND_MODEL_ROPE_H
#define ATTND_MODEL_ROPE_H

#include "model/model_reader.h"

/* Reads "rope": an object, or null for none. */
bool model_rope_read(struct model_reader *reader, const cJSON *node);

/* Reads only the member "scaling" of a rope whose other members are read already. */
bool model_rope_read_scaling(struct model_reader *reader, const cJSON *scaling);

/* "yarn" */
const char *model_rope_type_name(enum attn_rope_type type);

#endif
