/* pasted.h - pages whose commands are pasted in order, and the daemon that they are pasted beside.
 *
 * The daemon runs in a copy of the tree, started by the lines of `make serve` as `make run` starts
 * it, with a free port. A command is a block ```sh of a page. The block behind it, ```json or
 * ```text, is its answer: numbers of JSON to six digits, any white space, and "..." for anything.
 */
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

/* Copies the tree, makes the copy the working directory, and starts the daemon there; the other
 * ends and removes all that. For cmocka's groups. */
int pasted_start(void **state);
int pasted_stop(void **state);

const char *pasted_printed(void);      /* by `make serve`, before the daemon */
const char *pasted_files_before(void); /* pasted_files() before the daemon was started */
char *pasted_files(void);              /* names and sums outside build/; the caller's to free */

/* Reads a page of the tree; fails the test where a block has no end. */
void pasted_read(struct pasted_page *page, const char *file);
void pasted_free(struct pasted_page *page);

/* Whether block i is a command, and not `make run`, which has been done. */
bool pasted_is_command(const struct pasted_page *page, int i);

/* The answer that the page shows to the command of block i; NULL where it shows none. */
const struct pasted_block *pasted_answer(const struct pasted_page *page, int i);

/* What a script writes to both streams; the caller's to free. It must end with 0. Wherever it names
 * 127.0.0.1:8080 it reaches the daemon. */
char *pasted_shell(const char *script);

/* Fails the test where what a command wrote is not what the page shows. */
void pasted_assert_json(const struct pasted_page *page, const char *shown, const char *output);
void pasted_assert_text(const struct pasted_page *page, const char *shown, const char *output);

/* Makes every run of white space one space, and none at both ends. */
char *pasted_squeezed(char *text);

/* Takes all white space out. */
char *pasted_joined(char *text);

/* What follows the first 127.0.0.1:8080 of the text; NULL where there is none. */
char *pasted_behind_address(char *text);

#endif
