/* SPDX-License-Identifier: Apache-2.0 */
/* cost_fit.h - fits the rates of cost.h to this machine and its kernels, in a few milliseconds. */
#ifndef ATTND_COST_FIT_H
#define ATTND_COST_FIT_H

#include "attn.h"

/* Runs a little of each kind of work on the calling thread and fits the rates to the measured time.
 * Without memory for that the rates stay as they are. */
void cost_fit(const struct attn_kernels *kernels);

#endif
