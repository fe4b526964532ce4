/* metrics_inference.h - inferences, counted by model and route.
 *
 * Models come and go, and their names are the clients' where these may put models, so there are
 * only so many places. A name keeps its place, and its counters go on, as long as no other needs it
 * after the last model of that name has gone; a model for which there is none is counted with all
 * such as "_other", a name that no model can have. Thread-safe; counting takes no lock. */
#ifndef ATTND_METRICS_INFERENCE_H
#define ATTND_METRICS_INFERENCE_H

#include "text/text.h"
#include "watch/request_record.h"

enum { METRICS_MODELS_MAX = 32, METRICS_ENDPOINTS_MAX = 8 };

/* The place of models of this name, held until it is dropped once for each time it was taken. */
int metrics_model_take(const char *name);
void metrics_model_drop(int place); /* 0 is fine */

/* One inference that came to a worker; place 0: of no model, or none that was found. record's
 * route is an inference's, of which there may be METRICS_ENDPOINTS_MAX. Only where it was answered
 * well its durations and items count. */
void metrics_inference(int place, const struct request_record *record);

void metrics_inference_write(struct text *text);

#endif
