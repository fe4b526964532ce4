/* SPDX-License-Identifier: Apache-2.0 */
/* span_queue.h - records on their way to the exporter, in a fixed number of places.
 *
 * Any thread puts, and one thread takes. Neither waits for the other, and nothing is allocated
 * between create and free. */
#ifndef ATTND_SPAN_QUEUE_H
#define ATTND_SPAN_QUEUE_H

#include "telemetry/span_record.h"

struct span_queue;

/* A queue of places rounded up to a power of two, at least 2. NULL: there is no memory. */
struct span_queue *span_queue_create(int places);
void span_queue_free(struct span_queue *queue);

/* Copies a record into the queue. False: the queue is full. */
bool span_queue_put(struct span_queue *queue, const struct span_record *record);

/* Whether a put would find no room just now. */
bool span_queue_is_full(struct span_queue *queue);

/* The oldest record, which stays where it is until span_queue_drop(); NULL: the queue is empty. For
 * the one thread that takes. */
const struct span_record *span_queue_first(struct span_queue *queue);
void span_queue_drop(struct span_queue *queue);

int span_queue_places(const struct span_queue *queue);

#endif
