/* SPDX-License-Identifier: Apache-2.0 */
/* batch_report.h - how far a batch is, and at its end what came of it: counts, and faults by the
 * numbers of their lines.
 *
 * It reads the lines of answers, of this process and of those before that it goes on from. */
#ifndef ATTND_BATCH_REPORT_H
#define ATTND_BATCH_REPORT_H

#include "base/fault.h"

#include <stdint.h>
#include <stdio.h>

enum { BATCH_FAULTS_LISTED = 20 };

struct batch_listed {
    int64_t line;
    char code[24], message[FAULT_MESSAGE_MAX];
};

struct batch_report {
    int64_t line_count;               /* of the part, blank ones too */
    int64_t chunk_count;              /* of the part */
    int64_t lines_done, chunks_found; /* chunks that were there */
    int64_t answers, found;           /* all, and of them those that were there */
    int64_t faults;
    int64_t of_code[FAULT_CODE_COUNT]; /* faults; of codes with one name, under the first */
    struct batch_listed listed[BATCH_FAULTS_LISTED];
    bool is_terminal; /* stderr is one */
    int64_t begun_ns, shown_ns;
};

void batch_report_begin(struct batch_report *report);

/* Counts the line of an answer, with its line feed or without. False: it is none. */
bool batch_report_add(struct batch_report *report, const char *line, size_t size, bool was_found);

/* Shows how far it is, at times. */
void batch_report_progress(struct batch_report *report);

/* At the end, also where the batch did not come to it: ends the line of a terminal; and says what
 * came of it, on stdout. */
void batch_report_clear(const struct batch_report *report);
void batch_report_print(const struct batch_report *report, const char *folder);

#endif
