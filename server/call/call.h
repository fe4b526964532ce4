/* SPDX-License-Identifier: Apache-2.0 */
/* call.h - the life of a request that computes, whatever it computes.
 *
 *     connection thread   take the body, price it, ask admission, submit the job
 *     stage 0             unpack, read and plan; ask admission again
 *     next stages         compute
 *     further stages      write a long answer by tasks, pack it by tasks (call_answer.h)
 *     end                 write a short answer, record, reply; free when the answer has been sent
 *
 * Everything but the first step runs on workers, or on the connection thread where the call is
 * small and a worker is idle (scheduler_run()). A call_kind says what differs: how the body is
 * read, what the tasks are, how the answer is written and what the record says. */
#ifndef ATTND_CALL_H
#define ATTND_CALL_H

#include "call/answer_pieces.h"
#include "call/infer_cost.h"
#include "call/service.h"
#include "formats/coding_blocks.h"
#include "formats/format.h"
#include "formats/regions.h"
#include "http/http.h"
#include "telemetry/metrics_inference.h"
#include "json/json.h"
#include "json/text.h"

struct call;

/* A function that fails sets the fault, which the request is answered with. */
struct call_kind {
    /* Of a kind of operations (operation.h): what a call's work takes, which is zero before init,
     * and what it is set to. */
    size_t work_bytes;
    void (*init)(struct call *call);

    /* On the connection thread, before the body is taken: reads the headers. exchange is NULL in
     * call_try(). */
    bool (*begin)(struct call *call, const struct exchange *exchange, struct fault *fault);

    /* Reads the unpacked body. Sets timeout_ns and priority if the body has them. */
    bool (*read)(struct call *call, struct fault *fault);

    /* Plans what was read, in its turn where the call has an order. Sets cost, item_count and
     * answer_bytes. NULL: read does. */
    bool (*plan)(struct call *call, struct fault *fault);

    /* The number of tasks of a stage of computing, counted from 0; 0 when all is computed; or
     * JOB_WAITS: the stage runs outside the job, which then continues by call_continue(). */
    int64_t (*tasks)(struct call *call, int stage);
    void (*run)(struct call *call, int stage, int64_t task, const struct worker *worker);

    /* The job is over; fault may be set. Before the answer is finished. NULL: nothing to do. */
    void (*end)(struct call *call, struct fault *fault);

    /* The answer is complete, or fault is set: nothing of the call fails any more. NULL: nothing to
     * do. */
    void (*settle)(struct call *call);

    /* Writes text and, where the answer has them, parts. text.deferred is set if the answer is
     * long. */
    bool (*write)(struct call *call, struct fault *fault);

    /* What the request was about, once its durations and its fault are in the record. Counts it. */
    void (*record)(struct call *call, struct request_record *record);

    /* Frees what was read and computed. May be called twice. */
    void (*drop)(struct call *call);
};

/* What a call does that has to wait for others before it is planned. A stage that waits and plans
 * is before those of computing. */
struct call_order {
    /* Whether its turn has come; else the job waits (JOB_WAITS), and who comes before it continues
     * it with one task. */
    bool (*is_turn)(struct call *call);

    /* In that task, before the plan: fills the fields that depend on earlier calls. False without a
     * fault: it waits for more, so is_turn is asked again, and then this. */
    bool (*prepare)(struct call *call, struct fault *fault);

    /* When all is computed, before the answer is written. */
    bool (*check)(struct call *call, struct fault *fault);

    /* When the answer is complete, or fault is set: others go on. After call_kind's settle. */
    void (*end)(struct call *call, const struct fault *fault);
};

/* The first member of a kind's own struct, which is calloc'd. */
struct call {
    struct job job; /* first: a job is its call */
    const struct call_kind *kind;
    const struct operation *operation; /* NULL where the kind is no other's (operation.h) */
    struct service *service;
    struct exchange *exchange; /* NULL in call_try() */
    struct progress *progress; /* NULL: nobody asks how far it is */
    struct fault fault;

    /* The request. The body stays until the answer has been sent or its text is complete, unless
     * the kind drops it earlier. */
    struct byte_slice body;
    void *body_memory; /* what holds the body; malloc'd */
    enum coding body_coding, answer_coding;
    struct memory_share *memory; /* of the exchange; NULL: not counted */
    struct access_quota *quota;  /* of the exchange's key; NULL: no bounds */
    int64_t reserved_ns;         /* of the quota's CPU time */
    struct format_body form;     /* of an operation: what the message of the body refers to */
    const struct format *answer; /* of an operation: NULL: JSON, or the operation's own */
    void *state;                 /* of an operation: its own, in the arena */
    void *work; /* of the operation's kind: its own, freed with the call; NULL: it is not known */
    struct arena arena;         /* of an operation: owns what is read and computed */
    struct infer_limits limits; /* of an operation */
    struct model *model; /* retained: that the request is about, while the work is not made */
    struct regions_held regions; /* of shared memory, that the request names */
    bool is_for_worker; /* no connection thread reads the body, however short; begin sets it */
    int64_t timeout_ns; /* that the body gives the request; 0: none */
    int priority;       /* that the body asks for, see scheduler.h */
    bool is_planned;
    int first_stage;                /* of the job's: of computing */
    const struct call_order *order; /* NULL: waits for nobody; set in begin or read */
    void *order_state;              /* the order's own */

    /* What the plan says. */
    struct infer_cost cost;
    uint64_t guess_key; /* cost_guess_key() */
    int64_t item_count;
    size_t answer_bytes; /* at most; a long answer is written by tasks */
    struct admission_more_items more_items;

    /* The answer: the text, whose long tensors may be deferred to pieces, and behind it parts that
     * lie in the kind's memory. Where there are parts, the first is the text. */
    struct text text;
    struct answer_pieces pieces;
    struct coding_blocks packed;
    int answer_stages;       /* begun, see call_answer.c */
    struct byte_slice whole; /* of an answer that is all text */
    size_t text_bytes;       /* before packing */
    const char *content_type;
    int status; /* of an answer, 200 unless the kind sets it; 204: it has no body */
    const struct byte_slice *parts;
    int part_count;
    bool has_header_length; /* the text is a header that the parts belong to */

    struct request_clock clock;
    int holders; /* the exchange, and an answer whose parts lie in the call */
};

/* In a handler. Takes call over, which its owner has calloc'd with the kind set, and answers the
 * exchange. NULL: there was no memory for it. */
void call_handle(struct exchange *exchange, struct call *call);

/* Whether so long a body may come, of any path whose handler is a call: asked when its headers are
 * there (http.h). */
bool call_takes_body(const struct exchange *exchange, struct body_outlook *outlook,
                     struct fault *fault);

/* Takes call over and runs it on the caller's thread, with this body, which is not freed. The
 * answer is dropped. */
bool call_try(struct service *service, struct call *call, struct byte_slice body,
              struct fault *fault);

/* After a stage of computing: the tasks of the next one, count, or, where that is 0, those of
 * writing. */
int64_t call_continue(struct call *call, int64_t count);

/* A planned call of so many stages of computing: where a stage takes less time than waking a worker
 * saves, one worker runs them all. */
void call_share_stages(struct call *call, int64_t stages);

/* In record: settle is called once, on the connection thread and when the call is gone, and is told
 * whether the client had its whole answer. */
void call_on_settled(struct call *call, void (*settle)(void *settled, bool is_delivered),
                     void *settled);

/* Whether the call was stopped: its client left, its deadline passed, or the daemon ends. For a
 * task of it that takes long. */
bool call_is_stopped(struct call *call);

/* For an answer: a number that is unique, and the seconds since 1970. With service->repeats the one
 * comes of the request's id and index, which numbers those that a call takes, and the other is 0.
 */
uint64_t call_unique(const struct call *call, int64_t index);
int64_t call_time_s(const struct call *call);

/* Frees the body. */
void call_drop_body(struct call *call);

#endif
