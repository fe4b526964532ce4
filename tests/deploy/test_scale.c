/* SPDX-License-Identifier: Apache-2.0 */
/* test_scale.c - the model of deploy/SCALE.md: what the page shows is what the model says, and the
 * model is one machine where there is one. */
#include "scale_model.h"
#include "scale_placement.h"
#include "scale_report.h"
#include "tensor_file.h"
#include "test.h"

static const struct scale_link LINK = { "link", 1e-5, 1e9 };

static struct scale_cluster cluster_of(int cores)
{
    return (struct scale_cluster){ .node = { "node", cores, 10e9, 40e9, 100e9, 400e9, 1e12 },
                                   .inside = LINK,
                                   .between = { "network", 1e-4, 1e8 },
                                   .merge_s = 1e-9,
                                   .threads = 1,
                                   .shape = { 1, 32, 8, 128, 2 } };
}

/* 4096 bytes a key; 8192 operations for each pair that a causal row sees. */
TEST(one_rank_is_one_core)
{
    const struct scale_cluster cluster = cluster_of(4);
    double attend_s;
    assert_true(fabs(scale_decode(&cluster, 1, 1, 1e6, 1) - 4096e6 / 10e9) < 1e-12);
    const double took = scale_prefill(&cluster, 1, 1, 1e4, &attend_s);
    assert_true(fabs(attend_s - 8192e8 / 100e9) < 1e-9);
    /* Two merges of each row. */
    assert_true(fabs(took - attend_s - 2 * 1e4 * 4096 * 1e-9) < 1e-9);
}

/* A level is a message down, one up and a merge: 4096 numbers each way and 32 lse. */
TEST(a_tree_has_log2_levels)
{
    const struct scale_cluster cluster = cluster_of(4);
    const double level = 2e-5 + (2 * 16384 + 128) / 1e9 + 4096 * 1e-9;
    const double outer = 2e-4 + (2 * 16384 + 128) / 1e8 + 4096 * 1e-9;
    assert_true(fabs(scale_decode(&cluster, 1, 4, 0, 1) - 2 * level) < 1e-12);
    assert_true(fabs(scale_decode(&cluster, 8, 4, 0, 1) - 2 * level - 3 * outer) < 1e-12);
    assert_true(scale_decode(&cluster, 5, 4, 0, 1) == scale_decode(&cluster, 8, 4, 0, 1));
}

/* Keys go round behind attention, until the slices are thin or the network slow. */
TEST(a_ring_waits_for_the_slower)
{
    struct scale_cluster cluster = cluster_of(1);
    double attend_s;
    cluster.merge_s = 0;
    double took = scale_prefill(&cluster, 4, 1, 1e6, &attend_s);
    assert_true(fabs(took / attend_s - 1) < 1e-9);
    cluster.between.bytes_s = 1e3;
    took = scale_prefill(&cluster, 4, 1, 1e6, &attend_s);
    assert_true(fabs(took - 4 * (1e-4 + 1e6 / 4 * 4096 / 1e3)) < 1e-3);
}

/* Four threads of a rank merge a quarter each, and a rank alone has no tree within its node. */
TEST(threads_share_a_rank)
{
    struct scale_cluster cluster = cluster_of(4);
    double attend_s;
    cluster.threads = 4;
    assert_true(fabs(scale_decode(&cluster, 1, 1, 1e6, 1) - 4096e6 / 40e9) < 1e-12);
    const double took = scale_prefill(&cluster, 1, 1, 1e4, &attend_s);
    assert_true(fabs(attend_s - 8192e8 / 400e9) < 1e-9);
    assert_true(fabs(took - attend_s - 2 * 1e4 * 4096 * 1e-9 / 4) < 1e-9);
}

TEST(no_node_has_more_than_its_bound)
{
    const struct scale_placement none = scale_place(50, 20000, 0);
    const struct scale_placement bounded = scale_place(50, 20000, 1.1);
    assert_true(none.greatest > 1.15 && none.moved == 0);
    assert_true(bounded.greatest <= 1.1 + 1e-9 && bounded.greatest > 1);
    assert_true(bounded.moved > 0 && bounded.moved < 0.05);
}

/* ------------------------------------------------------------------------------------ the page --
 */

static char *written(void (*write)(FILE *file))
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    write(file);
    assert_int_equal(fclose(file), 0);
    return text;
}

TEST(the_page_has_what_the_model_says)
{
    char *page = (char *)tensor_read_bytes("deploy/SCALE.md", NULL), *rest = NULL;
    char *tables = written(scale_print);
    int rows = 0;
    for (char *line = strtok_r(tables, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (line[0] == '|') {
            rows++;
            if (!strstr(page, line))
                fail_msg("deploy/SCALE.md lacks the row\n%s", line);
        }
    assert_true(rows > 15);
    free(tables);
    free(page);
}

TEST(the_picture_is_the_models)
{
    char *file = (char *)tensor_read_bytes("deploy/scale.svg", NULL);
    char *drawn = written(scale_draw);
    assert_string_equal(file, drawn);
    free(drawn);
    free(file);
}
