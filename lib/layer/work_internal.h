/* work_internal.h - what work.c counts for work_layer.c. */
#ifndef ATTN_WORK_INTERNAL_H
#define ATTN_WORK_INTERNAL_H

#include "work.h"

/* A plan whose weights are made smaller on the spot (weight_map.h). */
void attn_plan_work_reduced(const struct attn_plan *plan, int64_t past_len, struct attn_work *work);

#endif
