/* SPDX-License-Identifier: Apache-2.0 */
/* bench_scale.c - the model of deploy/SCALE.md: attention over 4 to 1024 machines.
 *
 *     bench_scale [FILE.svg]     the tables; with a file also the picture
 *
 * load_scale.c measures what it begins with. */
#include "scale_report.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    scale_print(stdout);
    if (argc < 2)
        return EXIT_SUCCESS;
    FILE *file = fopen(argv[1], "w");
    if (file)
        scale_draw(file);
    if (file && fclose(file) == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "%s cannot be written\n", argv[1]);
    return EXIT_FAILURE;
}
