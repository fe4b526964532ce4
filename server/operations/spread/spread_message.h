/* SPDX-License-Identifier: Apache-2.0 */
/* spread_message.h - what a call asks of one peer, and what the peer says, as bytes: a batch over
 * sessions of POST /v1/sessions/attention, as a file of safetensors, whose items are the ranges
 * that lie there. */
#ifndef ATTND_SPREAD_MESSAGE_H
#define ATTND_SPREAD_MESSAGE_H

#include "call/infer.h"
#include "operations/spread/spread.h"
#include "json/text.h"

/* One range in a call. */
struct spread_item {
    int64_t range;
    int peer;
    int64_t at;             /* the length of the range: of what is there, or where its rows go */
    bool is_asked;          /* the query attends to it; else rows are appended, and that is all */
    int64_t row, rows;      /* of the call's keys and values: those that are appended */
    struct infer_part part; /* its answer, F32 */
};

/* What a call asks of all peers. */
struct spread_batch {
    const struct spread *spread;
    const struct infer_item *asked; /* with past_len */
    struct spread_item *items;      /* [count] */
    int64_t count;
    struct arena *arena;
};

/* Rows of key or value: [length][columns], or [heads][length][columns]. False, with the fault. */
bool spread_rows_count(const struct array *array, const char *name, int64_t *count,
                       struct fault *fault);

/* Bytes of one row of key and value in a session of this dtype. */
size_t spread_row_bytes(const struct array *key, const struct array *value, enum attn_dtype dtype);

/* Writes the body for a peer to an empty text: its items. */
bool spread_message_write(const struct spread_batch *batch, int peer, struct text *text,
                          struct fault *fault);

/* The most bytes that the answer to it has. */
size_t spread_message_answer_bytes(const struct spread_batch *batch, int peer,
                                   int64_t value_columns);

/* What went wrong at a peer, by its code and words. */
struct spread_refusal {
    int status; /* 0: it is an item's */
    char code[24];
    char message[FAULT_MESSAGE_MAX], pointer[FAULT_POINTER_MAX];
    int64_t item; /* that it is about, among all items; -1: all */
};

/* Reads an answer of 200 into the parts of the peer's items, which are copied to the arena. False:
 * with the refusal of an item, or with the fault: no memory, or it is not understood. */
bool spread_message_read(const struct spread_batch *batch, const struct spread_request *request,
                         struct spread_refusal *refusal, struct fault *fault);

/* Reads the body of any other answer; what it does not say is "". */
void spread_message_read_refusal(const struct spread_request *request,
                                 struct spread_refusal *refusal);

/* The number of a member of an answer in JSON; -1: it has none. */
int64_t spread_message_number(const struct spread_request *request, const char *name);

#endif
