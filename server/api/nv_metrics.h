/* nv_metrics.h - the metrics of each model under the names that Triton gives them, for dashboards
 * and autoscalers made for it (--metrics-nv-aliases).
 *
 * https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/metrics.html
 */
#ifndef ATTND_NV_METRICS_H
#define ATTND_NV_METRICS_H

#include "store/model_store.h"
#include "text/text.h"

/* Of every model that is served; counted anew when one is loaded, as its statistics are. */
void nv_metrics_write(struct text *text, struct model_store *store);

#endif
