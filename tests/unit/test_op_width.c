/* Every operation: plain C, AVX2 and AVX-512 give the same bits, forward and backward. A process has one width for its
 * life, so that this program starts itself with each.
 */
#include "op_lab.h"

static uint64_t hash(uint64_t h, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        h = (h ^ bits) * 1099511628211u;
    }
    return h;
}

/* A line of an operation's name and the digest of its values and gradients. */
static int print_digests(enum mf_precision precision)
{
    struct mf_engine *cpu;
    struct mf_err err = {0};
    if (mf_engine_open(&cpu, "cpu", 2, precision, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int op = 0; op < OPS; op++) {
        struct lab l;
        record(&l, op, cpu, S, &err);
        size_t n = S * (size_t)(mf_rows(l.g, l.y) * mf_cols(l.g, l.y));
        float *y = calloc(n, sizeof *y);
        run(&l, S, NULL, y);
        printf("%s %016llx\n", ops[op].name,
               (unsigned long long)hash(hash(14695981039346656037u, y, n), mf_plan_grads(l.plan), l.ps.size));
        free(y);
        release(&l);
    }
    mf_engine_close(cpu);
    return 0;
}

/* The digests of a process that may be so wide. */
static void digests_of(const char *width, const char *precision, const char *self, char lines[OPS][80])
{
    char command[512];
    snprintf(command, sizeof command, "MF_CPU=%s '%s' %s", width, self, precision);
    FILE *f = popen(command, "r");
    for (int op = 0; op < OPS; op++)
        if (!f || !fgets(lines[op], sizeof lines[op], f))
            snprintf(lines[op], sizeof lines[op], "%s gave no digest", width);
    if (f)
        pclose(f);
}

int main(int argc, char **argv)
{
    static const char *const widths[] = {"avx2", "avx512"}, *const precisions[] = {"fp32", "bf16"};
    static char base[OPS][80], wide[OPS][80];
    if (argc > 1)
        return print_digests(strcmp(argv[1], "bf16") ? MF_FP32 : MF_BF16);
    for (int p = 0; p < 2; p++) {
        digests_of("base", precisions[p], argv[0], base);
        for (int w = 0; w < 2; w++) { /* a width that the processor lacks is the one before it again */
            digests_of(widths[w], precisions[p], argv[0], wide);
            for (int op = 0; op < OPS; op++)
                ok(!strcmp(base[op], wide[op]) && strchr(base[op], '\n'), "%s in %s: %s has the bits of plain C",
                   ops[op].name, precisions[p], widths[w]);
        }
    }
    return done();
}
