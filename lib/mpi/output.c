/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - heads by the daemon's writers, numbers by pwrite(). */
#include "mpi/output.h"

#include "formats/npy.h"
#include "formats/safetensors.h"
#include "json/text.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_ending(const char *name, const char *ending)
{
    const size_t length = strlen(name), end = strlen(ending);
    return length >= end && strcmp(name + length - end, ending) == 0;
}

static bool name_error(const struct output *output, struct fault *fault)
{
    return fault_set(fault, FAULT_STORAGE, "%s: %s", output->part, strerror(errno));
}

/* The head of the file, in text. */
static bool write_head(struct text *text, const struct output *output, const char *name, int rank,
                       const int64_t *shape, struct fault *fault)
{
    if (has_ending(output->path, ".npy")) {
        npy_write_head(text, ATTN_F32, rank, shape);
        return text_finish(text, fault);
    }
    struct safetensors_tensor tensor = { .name = name, .rank = rank };
    memcpy(tensor.shape, shape, (size_t)rank * sizeof *shape);
    return safetensors_write_head(text, &tensor, 1, NULL, 0, fault);
}

static bool create(struct output *output, const struct text *head, struct fault *fault)
{
    output->file = open(output->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (output->file < 0)
        return name_error(output, fault);
    if (pwrite(output->file, head->data, head->used, 0) == (ssize_t)head->used)
        return true;
    return name_error(output, fault);
}

static bool open_own(struct output *output, const struct text *head, struct fault *fault)
{
    output->numbers_at = (int64_t)head->used;
    if (output->job->rank == 0)
        return create(output, head, fault);
    return true;
}

/* Rank 0 has made the file. */
static bool open_others(struct output *output, struct fault *fault)
{
    if (output->job->rank == 0)
        return true;
    output->file = open(output->part, O_WRONLY | O_CLOEXEC);
    if (output->file >= 0)
        return true;
    return fault_set(fault, FAULT_STORAGE, "%s: %s; all ranks write to one file system",
                     output->part, strerror(errno));
}

bool output_begin(struct output *output, const struct job *job, enum job_output which,
                  int64_t length, int64_t columns)
{
    const int64_t all[4] = { job->batch, job->q_heads, length, columns };
    const int rank = (job->rank_of_files == 4) + 2 + (columns > 0);
    struct fault fault;
    struct text head;

    *output = (struct output){ .job = job, .path = job->outputs[which], .file = -1 };
    if (!output->path)
        return true;
    snprintf(output->part, sizeof output->part, "%s.part", output->path);
    text_init(&head, 1 << 16);
    bool is_well = write_head(&head, output, job_output_names[which], rank,
                              all + (job->rank_of_files != 4), &fault)
                   && open_own(output, &head, &fault);
    text_free(&head);
    is_well = job_agree(job, is_well, &fault);
    return is_well && job_agree(job, open_others(output, &fault), &fault);
}

void output_write(const struct output *output, int64_t first, const float *numbers, int64_t count)
{
    const char *bytes = (const char *)numbers;
    size_t left = (size_t)count * sizeof *numbers;
    off_t at = (off_t)(output->numbers_at + first * (int64_t)sizeof *numbers);
    struct fault fault;

    if (!output->path)
        return;
    while (left > 0) {
        const ssize_t written = pwrite(output->file, bytes, left, at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            name_error(output, &fault);
            job_abort(output->job, &fault);
        }
        bytes += written;
        left -= (size_t)written;
        at += written;
    }
}

bool output_end(struct output *output)
{
    struct fault fault;

    if (!output->path)
        return true;
    const bool is_written = fsync(output->file) == 0 || errno == EINVAL || errno == EROFS;
    const bool is_closed = close(output->file) == 0;
    if (!is_written || !is_closed)
        name_error(output, &fault);
    if (!job_agree(output->job, is_written && is_closed, &fault))
        return false;
    const bool is_named = output->job->rank != 0 || rename(output->part, output->path) == 0;
    if (!is_named)
        name_error(output, &fault);
    return job_agree(output->job, is_named, &fault);
}
