/* effort.c - see effort.h. */
#include "tokenizer/effort.h"

void effort_init(struct effort *effort, const struct tokenizer_stop *stop)
{
    *effort = (struct effort){ .stop = stop, .retries = EFFORT_RETRIES };
}

bool effort_go_on(struct effort *effort)
{
    effort->steps = 0;
    if (effort->stop && !effort->is_stopped)
        effort->is_stopped = effort->stop->is_stopped(effort->stop->owner);
    return !effort->is_stopped;
}

bool effort_fault(struct fault *fault)
{
    return fault_set(fault, FAULT_LEFT, "the request was over before its text was tokenized");
}
