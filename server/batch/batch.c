/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - see batch.h. */
#include "batch/batch.h"

#include "base/clock.h"
#include "batch/batch_window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long it waits for an answer before it shows how far it is. */
static const int64_t WAIT_NS = 200000000;

bool batch_open(struct batch *batch, const struct batch_options *options,
                const struct config *config, struct fault *fault)
{
    *batch = (struct batch){
        .options = options,
        .source = { .path = options->requests,
                    .chunk_lines = options->chunk_lines,
                    .line_bytes_max = config->body_bytes_max + BATCH_BESIDE_MAX },
        .folder = { .path = options->out,
                    .part = options->part,
                    .part_count = options->part_count,
                    .has_tensors = options->has_tensors },
    };
    if (!batch_source_open(&batch->source, fault))
        return false;
    if (batch_folder_open(&batch->folder, &batch->source, fault))
        return true;
    batch_source_close(&batch->source);
    return false;
}

void batch_close(struct batch *batch)
{
    batch_source_close(&batch->source);
    batch_folder_close(&batch->folder);
}

/* ------------------------------------------------------------------------------ a run -- */

struct run {
    struct batch *batch;
    struct batch_window window;
    struct batch_file file;
    int64_t reads, writes; /* the chunks whose lines are read and written; chunk_count: none */
    int64_t written_lines; /* of the chunk that is written */
};

/* Counts the answers of a chunk that is there. */
static bool count_found(struct batch *batch, int64_t chunk, struct fault *fault)
{
    FILE *stream = batch_folder_read(&batch->folder, chunk, fault);
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    bool good = true;
    if (!stream)
        return false;
    while (good && (size = getline(&line, &capacity, stream)) >= 0)
        good = batch_report_add(&batch->report, line, (size_t)size, true)
               || fault_set(fault, FAULT_CONFLICT,
                            "%s: the file of chunk %lld has a line that attnd batch does not "
                            "write; remove that file",
                            batch->folder.path, (long long)chunk);
    if (good && ferror(stream))
        good = fault_set(fault, FAULT_STORAGE, "%s: the file of chunk %lld cannot be read: %s",
                         batch->folder.path, (long long)chunk, strerror(errno));
    free(line);
    fclose(stream);
    batch->report.chunks_found++;
    batch->report.lines_done += batch_source_lines(&batch->source, chunk);
    return good;
}

/* The next chunk of the part from this one on that is to be computed. */
static int64_t find_chunk(const struct batch *batch, int64_t chunk)
{
    for (; chunk < batch->source.chunk_count; chunk += batch->options->part_count)
        if (!batch_folder_has(&batch->folder, chunk))
            return chunk;
    return batch->source.chunk_count;
}

/* Counts the chunks of the part from first on that were passed over, up to the next that is not. */
static bool count_passed(struct batch *batch, int64_t first, int64_t next, struct fault *fault)
{
    for (; first < next; first += batch->options->part_count)
        if (!count_found(batch, first, fault))
            return false;
    return true;
}

static void count_part(struct batch *batch)
{
    const int64_t step = batch->options->part_count;
    for (int64_t i = batch->options->part; i < batch->source.chunk_count; i += step) {
        batch->report.chunk_count++;
        batch->report.line_count += batch_source_lines(&batch->source, i);
    }
}

/* Hands in lines while there is room. */
static bool read_on(struct run *run, struct fault *fault)
{
    struct batch_source *source = &run->batch->source;
    struct batch_text text;
    while (run->reads < source->chunk_count && batch_window_has_room(&run->window)) {
        switch (batch_source_next(source, &text, fault)) {
        case BATCH_FAILED:
            return false;
        case BATCH_READ:
            if (!batch_window_add(&run->window, &text, fault))
                return false;
            break;
        case BATCH_CHUNK_ENDS:
            run->reads = find_chunk(run->batch, run->reads + run->batch->options->part_count);
            batch_window_end_chunk(&run->window, run->reads);
            if (run->reads < source->chunk_count)
                batch_source_seek(source, run->reads);
        }
    }
    return true;
}

/* What follows is the chunk that was read next: another cut of the batch may have written it since.
 */
static bool end_chunk(struct run *run, int64_t next, struct fault *fault)
{
    struct batch *batch = run->batch;
    const int64_t behind = run->writes + batch->options->part_count;
    if (!batch_file_commit(&run->file, fault))
        return false;
    batch->report.lines_done +=
        batch_source_lines(&batch->source, run->writes) - run->written_lines;
    run->written_lines = 0;
    run->writes = next;
    return count_passed(batch, behind, next, fault);
}

static bool write_line(struct run *run, const struct batch_place *place, struct fault *fault)
{
    struct batch_report *report = &run->batch->report;
    const struct text *answer = &place->answer;
    run->written_lines++;
    report->lines_done++;
    return (batch_report_add(report, answer->data, answer->used, false) || fault_no_memory(fault))
           && batch_file_add_tensors(&run->file, place->id, &place->tensors, fault)
           && batch_file_add(&run->file, answer->data, answer->used, fault);
}

/* Writes what stands at the head of the window. */
static bool write_on(struct run *run, struct fault *fault)
{
    struct batch_place *place;
    while ((place = batch_window_first(&run->window))) {
        if (!run->file.stream
            && !batch_file_begin(&run->file, &run->batch->folder, run->writes, fault))
            return false;
        const bool good = place->state == BATCH_CHUNK_END ? end_chunk(run, place->number, fault)
                                                          : write_line(run, place, fault);
        batch_window_pass(&run->window);
        if (!good)
            return false;
    }
    return true;
}

static bool answer_all(struct run *run, struct fault *fault)
{
    while (run->writes < run->batch->source.chunk_count) {
        if (!read_on(run, fault) || !batch_window_retry(&run->window, &run->batch->source, fault)
            || !batch_window_take(&run->window, clock_now_ns() + WAIT_NS, fault)
            || !write_on(run, fault))
            return false;
        batch_report_progress(&run->batch->report);
    }
    return true;
}

int batch_run(struct batch *batch, struct service *service, struct fault *fault)
{
    struct run run = { .batch = batch };
    batch_report_begin(&batch->report);
    count_part(batch);
    if (!batch_window_init(&run.window, service, batch->options->has_tensors, fault))
        return BATCH_EXIT_ENDED;
    run.writes = run.reads = find_chunk(batch, batch->options->part);
    if (run.reads < batch->source.chunk_count)
        batch_source_seek(&batch->source, run.reads);
    const bool good = count_passed(batch, batch->options->part, run.reads, fault)
                      && answer_all(&run, fault) && batch_folder_sync(&batch->folder, fault);
    batch_report_clear(&batch->report);
    batch_file_drop(&run.file);
    batch_window_free(&run.window);
    if (!good)
        return BATCH_EXIT_ENDED;
    batch_report_print(&batch->report, batch->folder.path);
    return batch->report.faults > 0 ? BATCH_EXIT_FAULTS : BATCH_EXIT_DONE;
}
