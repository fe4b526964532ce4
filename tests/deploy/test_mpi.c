/* SPDX-License-Identifier: Apache-2.0 */
/* test_mpi.c - attn-mpi as mpirun starts it on this machine: 1 to 8 ranks give the answer of one
 * machine, each to the bit again, and faults end the job with a message.
 *
 * The answer of one machine is the reference in double. How far a job may be from it is the law of
 * lib/mpi/README.md. Files are written and read here without the program's own readers. */
#include "attention_case.h"
#include "npy_bytes.h"
#include "shell.h"
#include "skip.h"
#include "tensor_file.h"
#include "test.h"

#include <unistd.h>

/* Where the kernels' own error ends, on numbers of at most 1 (tests/laws). */
#define KERNEL_ERROR 2e-6

enum { RANKS_MAX = 8, COMMAND_MAX = 2000 };

static char folder[] = "/tmp/attnd-mpi-XXXXXX";

static void need_mpi(void)
{
    skip_without("libopenmpi-dev", "pkg-config --exists ompi-c");
    skip_without("openmpi-bin", "command -v mpirun");
    setenv("MPI", shell_built("attn-mpi"), 1);
}

static int set_up(void **state)
{
    assert_non_null(mkdtemp(folder));
    setenv("D", folder, 1);
    setenv("TMPDIR", folder, 1);
    /* Other tests need the cores while ranks wait, and other networks take long to look for. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
    setenv("OMPI_MCA_pml", "ob1", 1);
    setenv("OMPI_MCA_btl", "self,vader", 1);
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 1);
    setenv("RUN", "mpirun --allow-run-as-root --oversubscribe --bind-to none", 1);
    return 0;
}

static int tear_down(void **state)
{
    shell("rm -rf $D");
    return 0;
}

/* ----------------------------------------------------------------------------------- files -- */

static const char *path_of(const char *name)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Rows [first, first + count) of a dense tensor, as numpy.save() writes an array of three
 * dimensions. */
static void write_npy(const char *name, const struct attn_tensor *tensor, int64_t first,
                      int64_t count)
{
    char head[128] = "\x93NUMPY\1\0\x76";
    FILE *file = fopen(path_of(name), "wb");
    const int64_t width = tensor->shape[3];
    memset(head + 10, ' ', sizeof head - 10);
    const int used = snprintf(head + 10, 100, NPY_DICT("<f4", "(%d, %d, %d)"),
                              (int)tensor->shape[1], (int)count, (int)width);
    head[10 + used] = ' ';
    head[127] = '\n';
    assert_non_null(file);
    assert_int_equal(fwrite(head, 1, 128, file), 128);
    for (int64_t h = 0; h < tensor->shape[1]; h++)
        assert_int_equal(fwrite(attention_at(tensor, 0, h, first, 0), sizeof(float),
                                (size_t)(count * width), file),
                         count * width);
    assert_int_equal(fclose(file), 0);
}

static void write_case(const struct attention_case *c)
{
    const struct attn_problem *problem = &c->problem;
    write_npy("q.npy", &problem->query, 0, problem->query.shape[2]);
    write_npy("k.npy", &problem->key, 0, problem->key.shape[2]);
    write_npy("v.npy", &problem->value, 0, problem->value.shape[2]);
}

/* The numbers of an answer, malloced; head is what numpy says of the shape. */
static float *read_npy(const char *name, const char *shape, int64_t count)
{
    size_t size;
    unsigned char *bytes = tensor_read_bytes(path_of(name), &size);
    const size_t head = 10 + bytes[8] + 256u * bytes[9];
    float *numbers = malloc((size_t)count * sizeof *numbers);
    assert_memory_equal(bytes, "\x93NUMPY", 6);
    bytes[head - 1] = '\0';
    assert_non_null(strstr((char *)bytes + 10, shape));
    assert_int_equal(size, head + (size_t)count * sizeof *numbers);
    memcpy(numbers, bytes + head, (size_t)count * sizeof *numbers);
    free(bytes);
    return numbers;
}

/* ---------------------------------------------------------------------------------- the law -- */

enum { Q_HEADS = 4, KV_HEADS = 2, HEAD_DIM = 32, V_HEAD_DIM = 24, CHOSEN = 3 };

static void case_init(struct attention_case *c, int64_t q_len, int64_t kv_len, bool is_causal)
{
    static int64_t past_len;
    attention_case_init(
        c, &(struct attention_sizes){ 1, Q_HEADS, KV_HEADS, q_len, kv_len, HEAD_DIM, V_HEAD_DIM },
        LAYOUT_DENSE, (uint64_t)(1000 * q_len + kv_len));
    past_len = kv_len - q_len;
    c->problem.past_len = &past_len;
    c->problem.options.causal = is_causal;
    write_case(c);
}

/* merges * (1 + greatest |lse|) * 2^-24 * greatest |value|, beside what a kernel alone may err. */
static double law(const struct reference *reference, int merges)
{
    double lse = 0;
    for (int64_t i = 0; i < reference->q_heads * reference->q_len; i++)
        lse = fmax(lse, fabs(reference->lse[i]));
    return KERNEL_ERROR + merges * (1 + lse) * 0x1p-24;
}

static void expect_within(const float *got, const double *want, int64_t count, double bound,
                          const char *what, int ranks)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - want[i]) <= bound))
            fail_msg("%d ranks: %s[%d] is %.9g, want %.9g within %.3g", ranks, what, (int)i,
                     (double)got[i], want[i], bound);
}

static char *read_answer(const char *name)
{
    return (char *)tensor_read_bytes(path_of(name), NULL);
}

/* Runs the job and compares all it wrote; chosen rows are 0, 2 and the last. */
static void run_and_compare(const struct reference *reference, const char *flags, int ranks,
                            int merges)
{
    char command[COMMAND_MAX], shape[3][64];
    const int64_t q_len = reference->q_len, kv_len = reference->kv_len;
    const int64_t chosen[CHOSEN] = { 0, 2, q_len - 1 };
    const double bound = law(reference, merges);
    struct tensor_file file;
    struct tensor lse;
    snprintf(command, sizeof command,
             "exec 2>&1; $RUN -n %d $MPI --query $D/q.npy --context $D/c.npy --lse "
             "$D/l.safetensors --weights $D/w.npy --rows 0,2,%d %s",
             ranks, (int)q_len - 1, flags);
    assert_non_null(strstr(shell(command), " s in all"));
    snprintf(shape[0], sizeof shape[0], "(%d, %d, %d)", Q_HEADS, (int)q_len, V_HEAD_DIM);
    snprintf(shape[1], sizeof shape[1], "(%d, %d, %d)", Q_HEADS, CHOSEN, (int)kv_len);

    float *context = read_npy("c.npy", shape[0], Q_HEADS * q_len * V_HEAD_DIM);
    expect_within(context, reference->context, Q_HEADS * q_len * V_HEAD_DIM, bound, "context",
                  ranks);
    free(context);
    float *weights = read_npy("w.npy", shape[1], Q_HEADS * CHOSEN * kv_len);
    for (int64_t h = 0; h < Q_HEADS; h++)
        for (int i = 0; i < CHOSEN; i++)
            expect_within(weights + (h * CHOSEN + i) * kv_len,
                          reference->weights + (h * q_len + chosen[i]) * kv_len, kv_len, bound,
                          "weights", ranks);
    free(weights);
    tensor_file_open(&file, path_of("l.safetensors"));
    lse = tensor_file_get(&file, "lse");
    assert_int_equal(lse.rank, 2);
    float *numbers = tensor_floats(&lse);
    expect_within(numbers, reference->lse, Q_HEADS * q_len, bound, "lse", ranks);
    free(numbers);
    tensor_file_close(&file);
}

/* Of a tree the two runs of a rank are merged, and then log2(ranks) results on their way up; of a
 * ring each run of each rank. */
static int merges_of(const char *exchange, int ranks)
{
    int depth = 1;
    for (int n = 1; n < ranks; n *= 2)
        depth++;
    return strcmp(exchange, "ring") == 0 ? 2 * ranks : depth;
}

static void check_ranks(int64_t q_len, int64_t kv_len, bool is_causal, const char *exchange,
                        const int *ranks, int count)
{
    struct attention_case c;
    struct reference reference;
    char flags[200];
    need_mpi();
    case_init(&c, q_len, kv_len, is_causal);
    reference_attention(&c.problem, &reference);
    snprintf(flags, sizeof flags, "--key $D/k.npy --value $D/v.npy %s --exchange %s",
             is_causal ? "--causal" : "", exchange);
    for (int i = 0; i < count; i++)
        run_and_compare(&reference, flags, ranks[i], merges_of(exchange, ranks[i]));
    reference_free(&reference);
    attention_case_free(&c);
}

TEST(decoding_by_a_tree_is_one_machines)
{
    check_ranks(3, 301, false, "tree", (const int[]){ 1, 2, 3, 4, 5, 6, 7, 8 }, RANKS_MAX);
}

/* Zig-zag slices see as many keys each; the answer is that of plain causal attention. */
TEST(a_causal_ring_in_zigzag_is_plain_causal)
{
    check_ranks(201, 201, true, "ring", (const int[]){ 1, 2, 3, 4, 8 }, 5);
}

/* More keys than rows, and a rank without rows or keys. */
TEST(a_ring_over_keys_of_the_past)
{
    check_ranks(37, 400, true, "ring", (const int[]){ 3, 4 }, 2);
    check_ranks(5, 6, true, "ring", (const int[]){ 8 }, 1);
}

TEST(a_causal_tree)
{
    check_ranks(37, 400, true, "tree", (const int[]){ 4 }, 1);
}

/* With 1 and 3 threads a rank. */
TEST(equal_ranks_give_equal_bits)
{
    static const char *const EXCHANGES[] = { "tree", "ring" };
    struct attention_case c;
    char command[COMMAND_MAX];
    need_mpi();
    case_init(&c, 64, 300, true);
    for (int i = 0; i < 2; i++) {
        for (int n = 0; n < 2; n++) {
            snprintf(command, sizeof command,
                     "exec 2>&1; $RUN -n 5 $MPI --query $D/q.npy --key $D/k.npy --value $D/v.npy "
                     "--causal --exchange %s --context $D/bits%d.npy --threads %d",
                     EXCHANGES[i], n, 1 + 2 * n);
            shell(command);
        }
        char *first = read_answer("bits0.npy"), *second = read_answer("bits1.npy");
        assert_memory_equal(first, second, 128 + Q_HEADS * 64 * V_HEAD_DIM * sizeof(float));
        free(first);
        free(second);
    }
    attention_case_free(&c);
}

/* Without --exchange the keys go round where they are fewer bytes than rows and answers. */
TEST(what_moves_fewer_bytes_is_chosen)
{
    struct attention_case c;
    need_mpi();
    case_init(&c, 100, 100, true);
    assert_non_null(strstr(shell("$RUN -n 2 $MPI --query $D/q.npy --key $D/k.npy --value $D/v.npy"),
                           "2 ranks, ring: 100 rows x 4 heads, 100 keys x 2 heads"));
    attention_case_free(&c);
    case_init(&c, 2, 100, true);
    assert_non_null(strstr(shell("$RUN -n 2 $MPI --query $D/q.npy --key $D/k.npy --value $D/v.npy"),
                           "2 ranks, tree: 2 rows x 4 heads, 100 keys x 2 heads"));
    attention_case_free(&c);
}

/* ------------------------------------------------------------------------ a file for each rank --
 */

static const int64_t CUTS[4] = { 0, 50, 50, 130 }; /* the second rank has no key */

static void write_shards(const struct attention_case *c)
{
    for (int rank = 0; rank < 3; rank++) {
        char name[32];
        snprintf(name, sizeof name, "k%d.npy", rank);
        write_npy(name, &c->problem.key, CUTS[rank], CUTS[rank + 1] - CUTS[rank]);
        snprintf(name, sizeof name, "v%d.npy", rank);
        write_npy(name, &c->problem.value, CUTS[rank], CUTS[rank + 1] - CUTS[rank]);
    }
}

TEST(each_rank_has_a_file_of_its_own)
{
    static const char *const EXCHANGES[] = { "tree", "ring" };
    struct attention_case c;
    struct reference reference;
    char flags[200];
    need_mpi();
    case_init(&c, 40, 130, true);
    write_shards(&c);
    reference_attention(&c.problem, &reference);
    for (int i = 0; i < 2; i++) {
        snprintf(flags, sizeof flags,
                 "--key $D/k%%r.npy --value $D/v%%r.npy --causal --exchange %s", EXCHANGES[i]);
        run_and_compare(&reference, flags, 3, merges_of(EXCHANGES[i], 3));
    }
    reference_free(&reference);
    attention_case_free(&c);
}

/* --------------------------------------------------------------------------------- faults -- */

/* What a job says that ends with a fault and leaves no answer. */
static const char *failing(const char *command)
{
    char script[COMMAND_MAX];
    snprintf(script, sizeof script, "exec 2>&1; rm -f $D/c.npy; ! %s && test ! -e $D/c.npy",
             command);
    return shell(script);
}

static void expect_said(const char *output, const char *message)
{
    if (!strstr(output, message))
        fail_msg("\"%s\" is not in\n%s", message, output);
}

TEST(shapes_that_do_not_fit_name_rank_and_field)
{
    struct attention_case c;
    need_mpi();
    case_init(&c, 4, 130, false);
    write_shards(&c);
    write_npy("v2.npy", &c.problem.value, 50, 70);
    const char *output = failing("$RUN -n 3 $MPI --query $D/q.npy --key $D/k%r.npy --value "
                                 "$D/v%r.npy --context $D/c.npy");
    expect_said(output, "attn-mpi: rank 2 of 3: value in ");
    expect_said(output, "v2.npy: shape [2, 70, 24], expected [2, 80, 24]\n");
    write_npy("k1.npy", &c.problem.query, 0, 4);
    output = failing("$RUN -n 3 $MPI --query $D/q.npy --key $D/k%r.npy --value $D/v%r.npy");
    expect_said(output, "attn-mpi: rank 1 of 3: key in ");
    expect_said(output, "k1.npy: shape [4, 4, 32], expected [2, 4, 32]\n");
    expect_said(failing("$RUN -n 2 $MPI --query $D/v.npy --key $D/k.npy --value $D/v.npy"),
                "k.npy: shape [2, 130, 32], expected [2, 130, 24]");
    attention_case_free(&c);
}

TEST(files_that_are_no_tensors_name_rank_and_file)
{
    struct attention_case c;
    need_mpi();
    case_init(&c, 4, 130, false);
    write_shards(&c);
    shell("truncate -s 4000 $D/k1.npy; echo '{}' >$D/v1.safetensors; mkfifo $D/pipe.npy");
    const char *output = failing("$RUN -n 3 $MPI --query $D/q.npy --key $D/k%r.npy --value "
                                 "$D/v%r.npy --context $D/c.npy");
    expect_said(output, "attn-mpi: rank 1 of 3: key in ");
    expect_said(output, "k1.npy: ");
    expect_said(failing("$MPI --query $D/q.npy --key $D/none.npy --value $D/v.npy"),
                "none.npy: No such file or directory");
    expect_said(failing("$MPI --query $D/q.npy --key $D/k.npy --value $D/v1.safetensors"),
                "rank 0 of 1: value in ");
    expect_said(failing("$MPI --query $D/q.npy --key $D/k.npy --value $D/v.npy --context "
                        "$D/none/c.npy"),
                "none/c.npy.part: No such file or directory");
    expect_said(failing("$MPI --query $D/pipe.npy --key $D/k.npy --value "
                        "$D/v.npy"),
                "pipe.npy: it is no file with something in it");
    attention_case_free(&c);
}

TEST(flags_are_checked)
{
    static const char *const CASES[][2] = {
        { "--query q.npy --key k.npy", "--value is missing" },
        { "--frobnicate", "\"--frobnicate\" is no flag" },
        { "--past-len 1x", "--past-len is \"1x\", expected an integer" },
        { "--window-left -2", "--window-left is \"-2\", expected an integer from 0" },
        { "--scale much", "--scale is \"much\", expected a number" },
        { "--exchange star", "--exchange is \"star\", expected tree or ring" },
        { "--rows 1,,2", "--rows is \"1,,2\", expected numbers of rows" },
        { "--rows 1,", "--rows is \"1,\", expected numbers of rows" },
        { "--rows 1 --rows ''", "--rows is \"\", expected numbers of rows" },
        { "--rows '\t1'", "--rows is \"\t1\", expected numbers of rows" },
        { "--rows 0-4096", "--rows names more than 4096 rows" },
        { "--ranks 4", "rank 0 of 1: --ranks is 4, and MPI has 1: the launcher and" },
        { "--threads 257", "--threads is \"257\", expected an integer from 1 to 256" },
        { "--repeat 0", "--repeat is \"0\", expected an integer from 1" },
        { "--context c.txt", "--context is \"c.txt\", expected a name" },
        { "--repeat", "--repeat needs N behind it" },
        { "--query q.npy --key k%r.npy --value v.npy", "%r is in --key or --value alone" },
        { "--query q.npy --key k.npy --value v.npy --context c.npy --lse c.npy",
          "--context and --lse name one file, c.npy" },
        { "--query q.npy --key k.npy --value v.npy --rows 1", "--weights and --rows need each" },
    };
    char command[COMMAND_MAX];
    need_mpi();
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        snprintf(command, sizeof command, "$MPI %s", CASES[i][0]);
        expect_said(failing(command), CASES[i][1]);
    }
    expect_said(shell("$MPI --help"), "usage: mpirun -n RANKS attn-mpi");
}

/* One of three ranks dies in the middle of a job that would take minutes. The shell waits for the
 * first answers to go round, then kills the last rank alone. */
TEST(a_rank_that_is_killed_ends_the_job)
{
    struct attention_case c;
    need_mpi();
    case_init(&c, 256, 256, true);
    const char *output =
        shell("exec 2>&1; cd $D; rm -f c.npy\n"
              "$RUN -n 3 $MPI --query q.npy --key k.npy --value v.npy --exchange ring --causal "
              "--context c.npy --repeat 100000 >log 2>&1 &\n"
              "job=$!\n"
              "for i in $(seq 600); do\n"
              "  ranks=$(cat /proc/$job/task/$job/children)\n"
              "  set -- $ranks; [ $# = 3 ] && grep -q libmpi /proc/$3/maps && break; sleep 0.1\n"
              "done\n"
              "sleep 1; kill -KILL $3; wait $job; status=$?\n"
              "for rank in $ranks; do for i in $(seq 100); do\n"
              "  grep -qE '^State:.*[^Z] \\(' /proc/$rank/status 2>/dev/null || break\n"
              "  [ $i != 100 ] || exit 1; sleep 0.1\n"
              "done; done\n"
              "[ ! -e c.npy ] && [ $status != 0 ] && cat log");
    expect_said(output, "mpirun noticed that process rank 2 with PID");
    expect_said(output, "exited on signal 9 (Killed)");
    attention_case_free(&c);
}

ALL_TESTS(set_up, tear_down);
