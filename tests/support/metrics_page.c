/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_page.c - see metrics_page.h. Names that begin with nv_ are Triton's: the rules for our
 * own names do not hold for them. */
#include "metrics_page.h"
#include "test.h"

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
static const char DIGITS[] = "0123456789";

/* What the reader knows when it reads a line. */
struct reader {
    struct metrics_page *page;
    const char *line;
    /* The histogram that is being read: its name with all labels but le. NULL between two
     * histograms. */
    char *histogram;
    double bound, count, sum;
    bool has_sum;
};

static void refuse(const struct reader *reader, const char *what)
{
    fail_msg("%s: %.*s", what, (int)strcspn(reader->line, "\n"), reader->line);
}

static size_t name_size(const char *text, const char *more)
{
    size_t size = 0;
    while (text[size]
           && (strchr(LETTERS, text[size]) || strchr(more, text[size])
               || (size > 0 && strchr(DIGITS, text[size]))))
        size++;
    return size;
}

static char *copy(const char *text, size_t size)
{
    char *made = malloc(size + 1);
    assert_non_null(made);
    memcpy(made, text, size);
    made[size] = '\0';
    return made;
}

static bool ends_in(const char *name, size_t size, const char *suffix)
{
    const size_t length = strlen(suffix);
    return size > length && memcmp(name + size - length, suffix, length) == 0;
}

/* ----------------------------------------------------------------- families -- */

static struct metrics_family *last_family(const struct metrics_page *page)
{
    return page->family_count > 0 ? &page->families[page->family_count - 1] : NULL;
}

const char *metrics_page_type(const struct metrics_page *page, const char *family)
{
    for (int i = 0; i < page->family_count; i++)
        if (strcmp(page->families[i].name, family) == 0)
            return page->families[i].type;
    return NULL;
}

static void read_help(struct reader *reader, const char *name, size_t size)
{
    struct metrics_page *page = reader->page;
    const char *help = name + size;
    char *copied = copy(name, size);
    const struct metrics_family *last = last_family(page);
    if (size == 0 || help[0] != ' ' || help[1] == '\0')
        refuse(reader, "not a HELP line");
    if (last && !last->type)
        refuse(reader, "the family before has no TYPE");
    for (int i = 0; i < page->family_count; i++)
        if (strcmp(page->families[i].name, copied) == 0)
            refuse(reader, "a family twice");
    for (; *help; help++)
        if (*help == '\\' && *++help != '\\' && *help != 'n')
            refuse(reader, "not an escape of a help text");
    if (page->family_count == page->family_capacity) {
        page->family_capacity = 2 * page->family_capacity + 16;
        page->families =
            realloc(page->families, (size_t)page->family_capacity * sizeof page->families[0]);
        assert_non_null(page->families);
    }
    page->families[page->family_count++] = (struct metrics_family){ copied, NULL };
}

static void read_type(struct reader *reader, const char *name, size_t size)
{
    struct metrics_family *family = last_family(reader->page);
    const char *type = name + size + 1;
    if (!family || family->type || strlen(family->name) != size
        || memcmp(family->name, name, size) != 0 || name[size] != ' ')
        refuse(reader, "TYPE does not follow its HELP");
    if (strcmp(type, "counter") != 0 && strcmp(type, "gauge") != 0
        && strcmp(type, "histogram") != 0)
        refuse(reader, "a type that is not offered");
    const bool is_ours = strncmp(name, "nv_", 3) != 0;
    if (is_ours && (strcmp(type, "counter") == 0) != ends_in(name, size, "_total"))
        refuse(reader, "counters end in _total, and nothing else does");
    if (is_ours
        && (ends_in(name, size, "_bucket") || ends_in(name, size, "_count")
            || ends_in(name, size, "_sum")))
        refuse(reader, "the name of a family ends like that of a histogram's part");
    family->type = copy(type, strlen(type));
}

/* ------------------------------------------------------------------ samples -- */

/* Checks what follows {a="b",c="d"}. A label may occur only once. */
static const char *skip_labels(const struct reader *reader, const char *text)
{
    const char *const first = text + 1;
    if (*text != '{')
        return text;
    do {
        const char *name = ++text;
        const size_t size = name_size(name, "");
        if (size == 0 || name[size] != '=' || name[size + 1] != '"')
            refuse(reader, "not a label");
        for (const char *seen = first; seen < name; seen = strchr(seen, ',') + 1)
            if (strncmp(seen, name, size + 1) == 0)
                refuse(reader, "a label twice");
        for (text += size + 2; *text && *text != '"'; text++)
            if (*text == '\\' && (!*++text || !strchr("\\\"n", *text)))
                refuse(reader, "not an escape of a label");
        if (*text++ != '"')
            refuse(reader, "a label without an end");
    } while (*text == ',');
    if (*text != '}')
        refuse(reader, "labels without an end");
    return text + 1;
}

static double number(const struct reader *reader, const char *text, const char *end)
{
    char *after;
    const double value = strtod(text, &after);
    if (after == text || after != end)
        refuse(reader, "not a number");
    return value;
}

/* The le of a bucket, which must be its last label. The rest of the name is family{labels}. */
static double split_bucket(struct reader *reader, const char *labels, const char *end, char **rest)
{
    const char *le = NULL;
    for (const char *at = labels; at < end; at++)
        if (strncmp(at, "le=\"", 4) == 0 && (at[-1] == ',' || at[-1] == '{'))
            le = at;
    if (!le || end[-2] != '"')
        refuse(reader, "a bucket without le as its last label");
    const double bound = number(reader, le + 4, end - 2);
    *rest = copy(labels, (size_t)(le - labels) - 1);
    return bound;
}

/* Buckets rise to +Inf. Then come the sum and the count; the count equals the last bucket. */
static void read_histogram(struct reader *reader, const char *suffix, size_t suffix_size,
                           const char *labels, const char *end, double value)
{
    char *rest = NULL;
    if (suffix_size == 7 && memcmp(suffix, "_bucket", 7) == 0) {
        const double bound = split_bucket(reader, labels, end, &rest);
        if (reader->histogram
            && (strcmp(reader->histogram, rest) != 0 || bound <= reader->bound
                || value < reader->count))
            refuse(reader, "a bucket that does not follow the one before");
        free(reader->histogram);
        reader->histogram = rest;
        reader->bound = bound;
        reader->count = value;
        reader->has_sum = false;
        return;
    }
    rest = copy(labels, labels < end ? (size_t)(end - labels) - 1 : 0);
    if (!reader->histogram || strcmp(rest, reader->histogram) != 0 || !isinf(reader->bound))
        refuse(reader, "not the sum or count of the buckets before");
    if (suffix_size == 4 && memcmp(suffix, "_sum", 4) == 0 && !reader->has_sum) {
        reader->has_sum = true;
    } else if (suffix_size == 6 && memcmp(suffix, "_count", 6) == 0 && reader->has_sum) {
        if (value != reader->count)
            refuse(reader, "the count is not that of the last bucket");
        free(reader->histogram);
        reader->histogram = NULL;
    } else {
        refuse(reader, "neither a sum nor a count");
    }
    free(rest);
}

static void read_sample(struct reader *reader)
{
    struct metrics_page *page = reader->page;
    const char *line = reader->line;
    const struct metrics_family *family = last_family(page);
    const size_t size = name_size(line, ":");
    const char *after = skip_labels(reader, line + size);
    const size_t family_size = family ? strlen(family->name) : 0;
    if (size == 0 || *after != ' ')
        refuse(reader, "not a sample");
    if (!family || !family->type || size < family_size
        || memcmp(family->name, line, family_size) != 0)
        refuse(reader, "a sample that does not follow its family");
    const double value = number(reader, after + 1, after + strlen(after));
    if (strcmp(family->type, "gauge") != 0 && !(value >= 0))
        refuse(reader, "a count below 0");
    if (strcmp(family->type, "histogram") == 0)
        read_histogram(reader, line + family_size, size - family_size, line + size, after, value);
    else if (size != family_size)
        refuse(reader, "a sample that is not of its family");
    if (page->series_count == page->series_capacity) {
        page->series_capacity = 2 * page->series_capacity + 256;
        page->series =
            realloc(page->series, (size_t)page->series_capacity * sizeof page->series[0]);
        assert_non_null(page->series);
    }
    page->series[page->series_count++] =
        (struct metrics_series){ copy(line, (size_t)(after - line)), value };
}

/* --------------------------------------------------------------------- page -- */

static int compare(const void *left, const void *right)
{
    const struct metrics_series *a = left, *b = right;
    return strcmp(a->name, b->name);
}

void metrics_page_read(struct metrics_page *page, const char *text)
{
    char *const copied = copy(text, strlen(text));
    char *rest = copied;
    *page = (struct metrics_page){ .series_count = 0 };
    struct reader reader = { .page = page };
    if (!text[0] || text[strlen(text) - 1] != '\n')
        fail_msg("the page does not end in a newline");
    copied[strlen(copied) - 1] = '\0';
    for (char *line; (line = strsep(&rest, "\n"));) {
        reader.line = line;
        if (line[0] != '#')
            read_sample(&reader);
        else if (strncmp(line, "# HELP ", 7) == 0)
            read_help(&reader, line + 7, name_size(line + 7, ":"));
        else if (strncmp(line, "# TYPE ", 7) == 0)
            read_type(&reader, line + 7, name_size(line + 7, ":"));
        else
            refuse(&reader, "neither HELP nor TYPE");
        if (line[0] == '#' && reader.histogram)
            refuse(&reader, "the histogram before has no end");
    }
    if (reader.histogram || (last_family(page) && !last_family(page)->type))
        fail_msg("the page ends too early");
    qsort(page->series, (size_t)page->series_count, sizeof page->series[0], compare);
    for (int i = 1; i < page->series_count; i++)
        if (strcmp(page->series[i - 1].name, page->series[i].name) == 0)
            fail_msg("twice: %s", page->series[i].name);
    free(copied);
}

void metrics_page_free(struct metrics_page *page)
{
    for (int i = 0; i < page->series_count; i++)
        free(page->series[i].name);
    for (int i = 0; i < page->family_count; i++) {
        free(page->families[i].name);
        free(page->families[i].type);
    }
    free(page->series);
    free(page->families);
    *page = (struct metrics_page){ .series_count = 0 };
}

static const struct metrics_series *find(const struct metrics_page *page, const char *series)
{
    const struct metrics_series key = { .name = (char *)series };
    return page->series_count == 0 ? NULL
                                   : bsearch(&key, page->series, (size_t)page->series_count,
                                             sizeof page->series[0], compare);
}

double metrics_page_value(const struct metrics_page *page, const char *series)
{
    const struct metrics_series *found = find(page, series);
    return found ? found->value : 0;
}

bool metrics_page_has(const struct metrics_page *page, const char *series)
{
    return find(page, series) != NULL;
}

double metrics_page_sum(const struct metrics_page *page, const char *name)
{
    const size_t size = strlen(name);
    double sum = 0;
    for (int i = 0; i < page->series_count; i++)
        if (strncmp(page->series[i].name, name, size) == 0
            && (page->series[i].name[size] == '{' || page->series[i].name[size] == '\0'))
            sum += page->series[i].value;
    return sum;
}
