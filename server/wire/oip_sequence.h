/* oip_sequence.h - sequences: requests with the parameter sequence_id, whose keys and values stay
 * between them in a session (session.h) of the key's name.
 *
 * The session of sequence 7 of model m is called "m:7". sequence_start begins it, in place of one
 * of the same id that has not ended; sequence_end ends it when the request is answered. A request
 * that fails has appended nothing and leaves the sequence as it was, also where it starts one. */
#ifndef ATTND_OIP_SEQUENCE_H
#define ATTND_OIP_SEQUENCE_H

#include "infer/infer_job.h"
#include "session/session.h"

struct oip;

struct oip_sequence {
    const cJSON *id; /* as it came, a string or a number; NULL: the request is of no sequence */
    char name[SESSION_NAME_MAX + 1]; /* of its session */
    bool starts, ends;
    struct session *session; /* held; of one that starts, from oip_sequence_take() on */
    bool is_begun;           /* by this request, which has not succeeded yet */
};

/* Reads the parameters of the document, and finds the session of a sequence that goes on. */
bool oip_sequence_read(struct infer_call *call, struct oip *oip, struct fault *fault);

/* When the request has its items, for one of a sequence: begins it where it starts, and makes the
 * call one over its session. */
bool oip_sequence_take(struct infer_call *call, struct oip *oip, struct fault *fault);

/* For the operation's drop. */
void oip_sequence_drop(struct call *call);

#endif
