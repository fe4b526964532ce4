/* batch_metrics.c - see batch_metrics.h. The bounds are powers of two: what a batch gains doubles
 * with its size, until arithmetic is the limit. */
#include "watch/batch_metrics.h"

#include "watch/metrics_text.h"

enum { BOUND_COUNT = 8 }; /* 1, 2, 4 .. 128 */

struct counts {
    _Atomic uint64_t buckets[BOUND_COUNT + 1]; /* not cumulative; the last is above all bounds */
    _Atomic uint64_t sum;
};

static struct counts requests, rows;

static void observe(struct counts *counts, int64_t number)
{
    int bucket = 0;
    while (bucket < BOUND_COUNT && number > (int64_t)1 << bucket)
        bucket++;
    metrics_count(&counts->buckets[bucket], 1);
    metrics_count(&counts->sum, (uint64_t)number);
}

void batch_metrics_observe(int64_t request_count, int64_t row_count)
{
    observe(&requests, request_count);
    observe(&rows, row_count);
}

static void write_counts(struct text *text, const char *name, const char *help,
                         const struct counts *counts)
{
    uint64_t count = 0;
    metrics_write_family(text, name, "histogram", help);
    for (int i = 0; i < BOUND_COUNT; i++) {
        count += metrics_value(&counts->buckets[i]);
        text_format(text, "%s_bucket{le=\"%d\"} %llu\n", name, 1 << i, (unsigned long long)count);
    }
    count += metrics_value(&counts->buckets[BOUND_COUNT]);
    text_format(text, "%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)count);
    text_format(text, "%s_sum %llu\n", name, (unsigned long long)metrics_value(&counts->sum));
    text_format(text, "%s_count %llu\n", name, (unsigned long long)count);
}

void batch_metrics_write(struct text *text)
{
    write_counts(text, "attnd_batch_rows", "Rows in a product that requests shared.", &rows);
    write_counts(text, "attnd_batch_requests", "Requests that shared a product.", &requests);
}
