/* json_floats.c - chooses how this CPU reads and writes a row of floats; see json_floats.h. */
#include "text/json_floats.h"

#include "text/json_numbers.h"

static bool avx2_runs(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi")
           && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

json_floats_reader *const *json_floats_readers(void)
{
    static json_floats_reader *const READERS[] = {
#ifdef __x86_64__
        json_read_floats_avx2,
#endif
        json_read_floats_plain,
        NULL,
    };
    return avx2_runs() ? READERS : READERS + (sizeof READERS / sizeof READERS[0] - 2);
}

size_t json_read_floats(const char *begin, const char **text, const char *end, float *values)
{
    return (*json_floats_readers())(begin, text, end, values);
}

json_floats_writer *const *json_floats_writers(void)
{
    static json_floats_writer *const WRITERS[] = {
#ifdef __x86_64__
        json_write_floats_avx2,
#endif
        json_write_floats_plain,
        NULL,
    };
    return avx2_runs() ? WRITERS : WRITERS + (sizeof WRITERS / sizeof WRITERS[0] - 2);
}

size_t json_write_floats(char *out, const float *values, size_t count)
{
    return (*json_floats_writers())(out, values, count);
}
