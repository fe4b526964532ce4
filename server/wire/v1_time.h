/* v1_time.h - when something ends, in answers of the native API. */
#ifndef ATTND_V1_TIME_H
#define ATTND_V1_TIME_H

#include "text/text.h"

#include <stdint.h>

/* Writes ,"expires":"2026-07-23T10:35:11Z","expires_in_ms":59999 for a time of clock_now_ns(). */
void v1_time_write_end(int64_t expires_ns, struct text *text);

#endif
