/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fields.h - the tables of what calls of attention may ask for. */
#ifndef ATTND_ATTENTION_FIELDS_H
#define ATTND_ATTENTION_FIELDS_H

#include "call/infer.h"
#include "fields/field.h"

/* Why calls over sessions have no model. */
#define FIELDS_NO_MODEL "model is not a field here; a session is of the model that it was made for"

/* Into a struct infer_item: of one call, of a batch with "requests", of a session with "steps". */
extern const struct field_table attention_fields, attention_batch_fields, attention_step_fields;

/* Into a struct attn_weight_map. */
extern const struct field_table weight_map_fields;

/* Beside attention_fields, into the same item. */
extern const struct field_table gradient_fields;

/* Into a struct infer_item: a merge. */
extern const struct field_table merge_fields;

/* What a call over sessions asks for beside attention. */
struct session_asked {
    const char *id;     /* of its session; NULL: the path names it */
    const char *owner;  /* the name whose session it is; NULL: not said */
    struct array input; /* rows that enter the layer; data NULL: absent */
    int64_t at;         /* SESSION_AT_NONE: absent */
    double epsilon;     /* of a selection */
    bool append, has_append, has_selection;
};

/* Into a struct session_asked: of a call whose path names the session, and of one whose items do.
 */
extern const struct field_table session_path_fields, session_item_fields;

#endif
