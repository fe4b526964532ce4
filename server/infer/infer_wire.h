/* infer_wire.h - how an endpoint's bytes become a request, and a request's results bytes again.
 *
 * A wire reads and writes on a worker. What it needs of the exchange beside the body it takes on
 * the connection thread, in begin. */
#ifndef ATTND_INFER_WIRE_H
#define ATTND_INFER_WIRE_H

#include "format/coding_blocks.h"
#include "http/http.h"
#include "infer/answer_pieces.h"
#include "infer/infer.h"
#include "text/json.h"
#include "text/text.h"

struct infer_wire;

/* One request on its way through a wire. */
struct infer_call {
    const struct infer_wire *wire;
    void *state; /* the wire's own, in the request's arena; begin makes it */
    struct infer_request request;
    struct infer_limits limits;

    /* What came. It stays until the answer has been sent or its text is complete, unless the wire
     * lets it go earlier. */
    struct byte_slice body;
    void *body_memory;           /* what holds the body, to be freed */
    struct memory_share *memory; /* of the exchange; NULL: not counted */
    struct json_document document;
    int64_t timeout_ns; /* what the body says that the request may take; 0: nothing */
    int priority;       /* and its level, see scheduler.h */

    /* The answer: the text, whose long tensors may be put off to pieces, and behind it parts that
     * lie where the call has them. Where there are parts the first is the text. */
    struct text text;
    struct answer_pieces pieces;
    struct coding_blocks packed;
    size_t text_bytes; /* in the end, before it is packed */
    const char *content_type;
    const struct byte_slice *parts;
    int part_count;
    bool has_header_length; /* the text is the header that the parts belong to */
};

struct infer_wire {
    bool (*begin)(struct infer_call *call, const struct exchange *exchange,
                  struct fault *fault); /* NULL: JSON, and nothing else is needed */
    bool (*read)(struct infer_call *call, struct fault *fault);
    void (*explain)(const struct infer_call *call,
                    struct fault *fault); /* NULL: a plan's faults are in the wire's words */
    bool (*write)(struct infer_call *call, struct fault *fault);
};

/* Reads size bytes of the body as JSON into call->document. */
bool infer_wire_read_json(struct infer_call *call, const void *bytes, size_t size,
                          struct fault *fault);

/* Lets the body go. */
void infer_wire_drop_body(struct infer_call *call);

#endif
