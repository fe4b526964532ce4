/* v1_time.c - see v1_time.h. */
#include "wire/v1_time.h"

#include "base/clock.h"

#include <time.h>

void v1_time_write_end(int64_t expires_ns, struct text *text)
{
    const int64_t left_ns = expires_ns - clock_now_ns();
    const time_t end = time(NULL) + (time_t)(left_ns / 1000000000);
    char stamp[32];
    struct tm parts;
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &parts));
    text_raw(text, ",\"expires\":");
    text_string(text, stamp);
    text_raw(text, ",\"expires_in_ms\":");
    text_integer(text, left_ns / 1000000);
}
