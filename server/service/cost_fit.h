/* cost_fit.h - what this machine and these kernels take, found in a few milliseconds. */
#ifndef ATTND_COST_FIT_H
#define ATTND_COST_FIT_H

#include "attn.h"

/* Runs a little of each kind of work on the calling thread and fits the rates of cost.h to what it
 * took. Without memory for it the rates stay as they are. */
void cost_fit(const struct attn_kernels *kernels);

#endif
