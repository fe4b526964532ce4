/* SPDX-License-Identifier: Apache-2.0 */
/* What a bench says of a peer: no ratio where rounds lie far apart or the peer waited, and of which
 * machine. */
#include "../bench/machine.h"
#include "../bench/ratio.h"
#include "test.h"

enum { COUNT_MAX = 8 };
static const struct ratio_peer BUSY = { 0.9, 1 }, IDLE = { 0.4, 1 };

static void expect_said(const char *wanted, double ratio, const char *rounds,
                        const struct ratio_peer *peer)
{
    double ratios[COUNT_MAX];
    char text[RATIO_BYTES], *end;
    int count = 0;
    for (const char *at = rounds; *at; at = end + (*end == ' '))
        ratios[count++] = strtod(at, &end);
    const double said = ratio_describe(text, ratios, count, peer);
    assert_string_equal(text, wanted);
    assert_float_equal(said, ratio, 1e-9);
}

TEST(a_ratio_is_the_median_of_its_rounds)
{
    expect_said("1.24", 1.24, "1.25 1.23 1.24", &BUSY);
    expect_said("1.50", 1.5, "1.52 1.51 1.48 1.49", &BUSY);
}

/* They do not say how far they would lie apart. */
TEST(few_rounds_give_no_ratio)
{
    expect_said("1 round", 0, "0.98", &BUSY);
    expect_said("2 rounds", 0, "1.5 1.5", &BUSY);
    expect_said("1.50", 1.5, "1.5 1.5 1.5", &BUSY);
    expect_said("not busy: 40% CPU", 0, "1.5", &IDLE);
}

/* One round of five that something disturbed is not in the middle half. */
TEST(a_stray_round_does_not_matter)
{
    expect_said("2.00", 2, "2.01 1.99 9.0 2.0 2.0", &BUSY);
}

TEST(rounds_that_lie_too_far_apart_give_no_ratio)
{
    expect_said("1.00", 1, "0.975 1 1.025", &BUSY);         /* the middle half is 2.5 % */
    expect_said("1.00", 1, "0.95 1 1.0499999", &BUSY);      /* 5 % */
    expect_said("spread 6%", 0, "0.95 1 1.0500001", &BUSY); /* more */
    expect_said("spread 12%", 0, "1.0 1.12 1.0 1.12 1.12 1.0 1.0", &BUSY);
    expect_said("spread 50%", 0, "1 3 2", &BUSY);
    expect_said("spread 6%", 0, "nan nan nan", &BUSY); /* of no time at all */
}

/* However even its rounds are. */
TEST(a_peer_that_waited_has_no_ratio)
{
    expect_said("not busy: 40% CPU", 0, "1.5 1.5 1.5", &IDLE);
    expect_said("not busy: 40% CPU", 0, "1 3 2", &IDLE);
}

TEST(no_rounds)
{
    expect_said("-", 0, "", &BUSY);
    expect_said("-", 0, "", &IDLE);
}

TEST(spread_of_the_middle_half)
{
    assert_float_equal(ratio_spread((double[]){ 7 }, 1), 0, 0);
    assert_float_equal(ratio_spread((double[]){ 4, 2 }, 2), 1.0 / 3, 1e-12);
    assert_float_equal(ratio_spread((double[]){ 5, 1, 2, 4, 3 }, 5), 2.0 / 3, 1e-12);
}

/* --------------------------------------------------------------------------- machine -- */

static void expect_cpu(const char *cpuinfo, const char *model, const char *flags)
{
    struct machine_cpu cpu;
    FILE *file = fmemopen((void *)(uintptr_t)cpuinfo, strlen(cpuinfo), "r");
    assert_non_null(file);
    machine_read_cpu(file, &cpu);
    fclose(file);
    assert_string_equal(cpu.model, model);
    assert_string_equal(cpu.flags, flags);
}

TEST(the_cpu_of_x86)
{
    expect_cpu("processor\t: 0\n"
               "model\t\t: 2\n"
               "model name\t: AMD EPYC 9R45: a CPU\n"
               "flags\t\t: fpu avx avx2 fma avx512f avx512_vnni_more avx512bw\n"
               "model name\t: another\n"
               "flags\t\t: amx_tile\n",
               "AMD EPYC 9R45: a CPU", "avx2 fma avx512f avx512bw");
}

TEST(the_cpu_of_arm)
{
    expect_cpu("processor\t: 0\nFeatures\t: fp asimd bf16 i8mm\nCPU part\t: 0xd40\n", "unknown",
               "asimd bf16 i8mm");
}

TEST(a_cpu_that_says_nothing)
{
    expect_cpu("nothing\n", "unknown", "");
}

/* The clock of all CPUs goes on, and no faster than they can. */
TEST(the_machine_is_busy)
{
    const double before_s = machine_busy_s();
    assert_true(before_s > 0);
    assert_true(machine_busy_s() >= before_s);
}
