/* SPDX-License-Identifier: Apache-2.0 */
/* pasted.h - runs the commands of a page in order beside a daemon, as a user who pastes them.
 *
 * The daemon runs in a copy of the tree. The lines of `make serve` start it as `make run` does,
 * with a free port. A command is a block ```sh of a page. The next block, ```json or ```text, is
 * its answer. Numbers of JSON are compared to six digits, white space does not count, and "..."
 * stands for anything. */
#ifndef PASTED_H
#define PASTED_H

#include "daemon.h"

#include <stdbool.h>

enum { PASTED_BLOCKS_MAX = 128 };

struct pasted_block {
    char *language, *text; /* both point into the page */
    bool is_answer;        /* nothing but blank lines between it and the block before */
};

struct pasted_page {
    const char *file;
    char *text;
    struct pasted_block blocks[PASTED_BLOCKS_MAX];
    int block_count;
};

/* Copies the tree, makes the copy the working directory, and starts the daemon there. The other
 * function ends the daemon and removes the copy. For cmocka's groups. */
int pasted_start(void **state);
int pasted_stop(void **state);

/* Makes the next pasted_start() a start as a page has it: the commands before its `make run` are
 * run first, and the daemon is started with the variables of that line. */
void pasted_start_as(const char *file);

const char *pasted_files_before(void); /* pasted_files() before the daemon was started */
char *pasted_files(void);              /* names and sums outside build/; the caller's to free */

/* Reads a page of the tree. Fails the test if a block has no end. */
void pasted_read(struct pasted_page *page, const char *file);
void pasted_free(struct pasted_page *page);

/* Whether block i is a command. `make run` does not count: pasted_start() has done it. */
bool pasted_is_command(const struct pasted_page *page, int i);

/* The block of the page's `make run`; -1 if the page has none. */
int pasted_run_block(const struct pasted_page *page);

/* The answer that the page shows for the command of block i. NULL if it shows none. */
const struct pasted_block *pasted_answer(const struct pasted_page *page, int i);

/* What a script writes to both streams; the caller frees it. The script must exit with 0.
 * 127.0.0.1:8080 in the script means the daemon's address, and port 8443 one that is free. */
char *pasted_shell(const char *script);

/* Pastes the commands of a page and compares what they write with the answers. Fails the test if
 * one differs, or is a fault that the page does not show. Returns how many commands there were. */
int pasted_all(const struct pasted_page *page);

/* Fails the test if the output of a command differs from the answer on the page. */
void pasted_assert_json(const struct pasted_page *page, const char *shown, const char *output);
void pasted_assert_text(const struct pasted_page *page, const char *shown, const char *output);

/* Turns every run of white space into one space, and removes it at both ends. */
char *pasted_squeezed(char *text);

/* Removes all white space. */
char *pasted_joined(char *text);

/* The text behind the first 127.0.0.1:8080. NULL if there is none. */
char *pasted_behind_address(char *text);

#endif
