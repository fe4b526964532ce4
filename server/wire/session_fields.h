/* session_fields.h - what a call over sessions asks for beside the fields of every inference. */
#ifndef ATTND_SESSION_FIELDS_H
#define ATTND_SESSION_FIELDS_H

#include "infer/infer_wire.h"
#include "session/session_call.h"
#include "wire/v1_reader.h"

/* Of one item. */
struct session_asked {
    const char *id;           /* of its session; NULL: the path names it */
    const char *owner;        /* the name whose session it is; NULL: not said */
    struct infer_array input; /* rows that enter the layer; data NULL: absent */
    int64_t at;               /* SESSION_AT_NONE: absent */
    bool has_layer, has_past_len, has_append, append, has_outputs;
};

/* Of a call whose path names the session, and of one whose items do. */
extern const struct v1_more session_fields_of_path, session_fields_of_items;

/* Sets item and step, whose session is set, by what is asked. */
bool session_fields_settle(const struct session_asked *asked, struct infer_item *item,
                           struct session_step *step, struct fault *fault);

#endif
