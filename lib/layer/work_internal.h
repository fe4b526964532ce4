/* work_internal.h - counts of work.c that work_layer.c uses. */
#ifndef ATTN_WORK_INTERNAL_H
#define ATTN_WORK_INTERNAL_H

#include "work.h"

/* The work of a plan whose weights are reduced as they are computed. */
void attn_plan_work_reduced(const struct attn_plan_full *plan, const struct attn_weight_map *map,
                            int64_t past_len, struct attn_work *work);

#endif
