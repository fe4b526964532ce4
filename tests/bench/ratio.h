/* SPDX-License-Identifier: Apache-2.0 */
/* ratio.h - what a bench says of a peer beside ours: a ratio, or why it gives none. */
#ifndef BENCH_RATIO_H
#define BENCH_RATIO_H

/* A ratio whose rounds lie farther apart is not printed, for another run would give another. */
enum { RATIO_SPREAD_PERCENT = 5, RATIO_ROUNDS_MIN = 3, RATIO_BYTES = 40 };

/* How far the middle half of the numbers lies apart, in parts of their median: the difference of
 * the quartiles, between neighbours by their distance. 0 of one number. It sorts them. */
double ratio_spread(double *numbers, int count);

/* "1.24"; "spread 12%" where the rounds lie too far apart; "2 rounds" where there are too few to
 * say how far; "not busy: 40% CPU" where the peer took less than it could (peers.h), whatever the
 * rounds say; "-" of no rounds. It sorts the ratios. Returns the ratio; 0: there is none. */
struct ratio_peer {
    double cpu_s, could_s;
};
double ratio_describe(char text[RATIO_BYTES], double *ratios, int count,
                      const struct ratio_peer *peer);

#endif
