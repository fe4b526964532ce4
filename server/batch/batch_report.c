/* SPDX-License-Identifier: Apache-2.0 */
/* batch_report.c - see batch_report.h. */
#include "batch/batch_report.h"

#include "base/clock.h"
#include "json/json.h"
#include "json/json_scan.h"
#include "json/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How often a terminal is written to, and another stream. */
static const int64_t SHOW_NS = 200000000, SAY_NS = 30000000000;

enum { BAR_CELLS = 30 };

void batch_report_begin(struct batch_report *report)
{
    *report = (struct batch_report){ .is_terminal = isatty(STDERR_FILENO) };
    report->begun_ns = report->shown_ns = clock_now_ns();
}

/* ------------------------------------------------------------------- lines of answers -- */

static bool take_number(struct json_scan *scan, int64_t *number)
{
    const char *begin = scan->p;
    for (*number = 0; json_scan_is_digit(json_scan_peek(scan)) && scan->p - begin < 18; scan->p++)
        *number = 10 * *number + (*scan->p - '0');
    return scan->p > begin;
}

/* Lines begin as batch_answer_write() has them. */
static bool read_head(struct json_scan *scan, int64_t *line, int64_t *status)
{
    return json_scan_word(scan, "{\"id\":\"line-") && take_number(scan, line)
           && json_scan_word(scan, "\",\"custom_id\":")
           && (json_scan_peek(scan) == '"' ? json_scan_string(scan) : json_scan_word(scan, "null"))
           && json_scan_word(scan, ",\"response\":{\"status_code\":") && take_number(scan, status);
}

static const char *member_text(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

static void count_code(struct batch_report *report, const char *name)
{
    for (int code = 1; code < FAULT_CODE_COUNT; code++)
        if (strcmp(fault_code_name(code), name) == 0) {
            report->of_code[code]++;
            return;
        }
}

/* A message has words of the request. What a terminal would obey becomes a question mark, line
 * feeds too, so that a fault stays one line. */
static void make_plain(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++)
        if (*at < ' ' || *at == 0x7f)
            *at = '?';
        else if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) /* U+0080 to U+009F */
            at[0] = at[1] = '?';
}

static bool add_fault(struct batch_report *report, int64_t line, const char *text, size_t size)
{
    const struct json_options options = { .nul_is_kept = true };
    struct json_document document;
    struct fault fault;
    if (!json_read(&document, text, size, &options, &fault))
        return false;
    const cJSON *response = cJSON_GetObjectItemCaseSensitive(document.root, "response");
    const cJSON *body = cJSON_GetObjectItemCaseSensitive(response, "body");
    count_code(report, member_text(body, "code"));
    if (report->faults < BATCH_FAULTS_LISTED) {
        struct batch_listed *listed = &report->listed[report->faults];
        listed->line = line;
        text_copy(listed->code, sizeof listed->code, member_text(body, "code"));
        text_copy(listed->message, sizeof listed->message, member_text(body, "error"));
        make_plain(listed->message);
    }
    report->faults++;
    json_free(&document);
    return true;
}

bool batch_report_add(struct batch_report *report, const char *line, size_t size, bool was_found)
{
    struct fault fault;
    struct json_scan scan = { .text = line, .end = line + size, .p = line, .fault = &fault };
    int64_t number, status;
    if (!read_head(&scan, &number, &status)
        || (status >= 400 && !add_fault(report, number, line, size)))
        return false;
    report->answers++;
    report->found += was_found;
    return true;
}

/* ----------------------------------------------------------------------- how far it is -- */

static double seconds_since(int64_t ns)
{
    return (double)(clock_now_ns() - ns) / 1e9;
}

static double rate(const struct batch_report *report)
{
    const double seconds = seconds_since(report->begun_ns);
    return seconds > 0 ? (double)(report->answers - report->found) / seconds : 0;
}

static void draw_bar(double part)
{
    char cells[BAR_CELLS + 1];
    const int full = (int)(part * BAR_CELLS);
    for (int i = 0; i < BAR_CELLS; i++)
        cells[i] = i < full ? '#' : '-';
    cells[BAR_CELLS] = '\0';
    fprintf(stderr, "\r[%s] %3.0f %%, ", cells, 100 * part);
}

void batch_report_progress(struct batch_report *report)
{
    const int64_t now_ns = clock_now_ns();
    const double per_s = rate(report);
    const int64_t left = report->line_count - report->lines_done;
    if (now_ns - report->shown_ns < (report->is_terminal ? SHOW_NS : SAY_NS))
        return;
    report->shown_ns = now_ns;
    if (report->is_terminal)
        draw_bar(report->line_count > 0 ? (double)report->lines_done / (double)report->line_count
                                        : 1);
    else
        fputs("attnd batch: ", stderr);
    fprintf(stderr, "%" PRId64 " of %" PRId64 " lines, %.0f/s, %" PRId64 " faults",
            report->lines_done, report->line_count, per_s, report->faults);
    if (per_s > 0)
        fprintf(stderr, ", %.0f s left", (double)left / per_s);
    fputs(report->is_terminal ? "   " : "\n", stderr);
}

/* -------------------------------------------------------------------------- at the end -- */

void batch_report_clear(const struct batch_report *report)
{
    if (report->is_terminal)
        fputs("\r\033[K", stderr);
}

static const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

static void print_faults(const struct batch_report *report, const char *folder)
{
    const char *between = "";
    printf("%" PRId64 " fault%s: ", report->faults, plural(report->faults));
    for (int code = 0; code < FAULT_CODE_COUNT; code++)
        if (report->of_code[code] > 0) {
            printf("%s%" PRId64 " %s", between, report->of_code[code], fault_code_name(code));
            between = ", ";
        }
    printf("\n");
    for (int64_t i = 0; i < report->faults && i < BATCH_FAULTS_LISTED; i++)
        printf("line %" PRId64 ": %s: %s\n", report->listed[i].line, report->listed[i].code,
               report->listed[i].message);
    if (report->faults > BATCH_FAULTS_LISTED)
        printf("and more: grep -hv '\"status_code\":200,' %s/chunk-*.jsonl\n", folder);
}

void batch_report_print(const struct batch_report *report, const char *folder)
{
    const int64_t now = report->answers - report->found;
    printf("%" PRId64 " request%s in %" PRId64 " chunk%s: %s\n", report->answers,
           plural(report->answers), report->chunk_count, plural(report->chunk_count), folder);
    if (report->chunks_found > 0)
        printf("%" PRId64 " of the chunks %s there already\n", report->chunks_found,
               report->chunks_found == 1 ? "was" : "were");
    if (report->faults > 0)
        print_faults(report, folder);
    printf("%" PRId64 " computed in %.1f s, %.0f a second\n", now, seconds_since(report->begun_ns),
           rate(report));
}
