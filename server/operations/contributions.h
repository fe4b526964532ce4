/* contributions.h - what parts of a pass add to logits, said to any writer. */
#ifndef ATTND_CONTRIBUTIONS_H
#define ATTND_CONTRIBUTIONS_H

#include "operations/pass/trace.h"
#include "operations/say.h"

/* The member "contributions"; nothing where none are asked for. */
void contributions_say(struct writer *writer, const struct trace_item *item);

#endif
