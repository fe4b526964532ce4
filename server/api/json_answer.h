/* SPDX-License-Identifier: Apache-2.0 */
/* json_answer.h - an answer in JSON that a handler writes at once, on the connection's thread. */
#ifndef ATTND_JSON_ANSWER_H
#define ATTND_JSON_ANSWER_H

#include "formats/writer.h"
#include "http/http.h"

struct json_answer {
    struct exchange *exchange;
    struct arena arena;
    struct text text;
    struct fault fault;
    struct writer *writer; /* the object of the answer is open */
};

/* False: there was no memory, and the exchange is answered with that. */
bool json_answer_begin(struct json_answer *answer, struct exchange *exchange);

/* Drops what was written, and replies with the fault. */
void json_answer_fail(struct json_answer *answer, const struct fault *fault);

/* Ends the object, and replies with status 200. */
void json_answer_end(struct json_answer *answer);

#endif
