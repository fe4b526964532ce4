/* SPDX-License-Identifier: Apache-2.0 */
/* test_spread_cut.c - the cut of a session that is spread: where rows go, what a full peer changes,
 * how ranges grow, and which of them rows see, against a list of all positions. */
#include "fill.h"
#include "operations/spread/spread.h"
#include "test.h"

static struct spread *new_cut(struct spread *spread)
{
    *spread = (struct spread){ .rows_min = 4 };
    pthread_mutex_init(&spread->mutex, NULL);
    return spread;
}

static void free_cut(struct spread *spread)
{
    free(spread->ranges);
    pthread_mutex_destroy(&spread->mutex);
}

static void add(struct spread *spread, int peer, int64_t rows)
{
    struct fault fault;
    assert_true(spread_add(spread, peer, "id", rows, &fault));
}

TEST(rows_fill_ranges_one_after_the_other)
{
    struct spread spread;
    struct spread_piece pieces[8];
    int64_t left;
    new_cut(&spread);
    assert_int_equal(spread_lay(&spread, 0, 5, pieces, 8, &left), 0);
    assert_int_equal(left, 5);
    add(&spread, 0, 4);
    assert_int_equal(spread_lay(&spread, 0, 5, pieces, 8, &left), 1);
    assert_int_equal(left, 1);
    add(&spread, 1, 4);
    assert_int_equal(spread_lay(&spread, 0, 5, pieces, 8, &left), 2);
    assert_true(left == 0 && pieces[0].count == 4 && pieces[1].first == 4 && pieces[1].count == 1);
    spread_has(&spread, 5);
    assert_true(spread.length == 5 && spread.ranges[1].count == 1);
    /* A retry of positions 3 and 4. */
    assert_int_equal(spread_lay(&spread, 3, 2, pieces, 8, &left), 2);
    assert_true(pieces[0].first == 3 && pieces[0].count == 1 && pieces[1].first == 4);
    spread_has(&spread, 4); /* of a retry: nothing becomes shorter */
    assert_int_equal(spread.length, 5);
    free_cut(&spread);
}

TEST(a_range_whose_peer_is_full_ends)
{
    struct spread spread;
    struct spread_piece pieces[8];
    int64_t left;
    new_cut(&spread);
    add(&spread, 0, 4);
    spread_has(&spread, 2);
    add(&spread, 1, 4);
    assert_int_equal(spread.ranges[1].first, 4);
    spread_end_range(&spread, 0);
    assert_int_equal(spread.ranges[1].first, 2);
    assert_int_equal(spread_lay(&spread, 2, 5, pieces, 8, &left), 1);
    assert_true(pieces[0].range == 1 && pieces[0].count == 4 && left == 1);
    free_cut(&spread);
}

/* A context of a million positions has tens of ranges, and no peer much more than its share. */
TEST(ranges_grow_with_the_length)
{
    for (int64_t count = 1; count <= 16; count *= 2) {
        int64_t rows[16] = { 0 }, length = 0, ranges = 0;
        while (length < 1 << 20) {
            int64_t least = 0;
            for (int64_t i = 1; i < count; i++)
                least = rows[i] < rows[least] ? i : least;
            const int64_t next = spread_next_rows(SPREAD_ROWS_DEFAULT, length, count);
            rows[least] += next;
            length += next;
            ranges++;
        }
        assert_true(ranges <= 10 * count + 14);
        for (int64_t i = 0; i < count; i++)
            assert_true((double)rows[i] < 1.5 * (double)length / (double)count + 16384);
    }
}

static bool sees_one(const struct spread_sight *sight, int64_t key)
{
    for (int64_t row = sight->first_row; row < sight->first_row + sight->row_count; row++)
        if ((sight->window_left < 0 || key >= row - sight->window_left)
            && (sight->window_right < 0 || key <= row + sight->window_right))
            return true;
    return false;
}

TEST(what_rows_see)
{
    struct fill fill = { 7 };
    for (int i = 0; i < 20000; i++) {
        const struct spread_sight sight = { fill_below(&fill, 12), fill_below(&fill, 4),
                                            fill_below(&fill, 6) - 1, fill_below(&fill, 6) - 1 };
        const int64_t first = fill_below(&fill, 16), count = fill_below(&fill, 5);
        bool expected = false;
        for (int64_t key = first; key < first + count; key++)
            expected = expected || sees_one(&sight, key);
        assert_int_equal(spread_sees(&sight, first, count), expected);
    }
}
