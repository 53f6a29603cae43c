/* Arenas: counted, then allocated; too large a size is an error. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "tap.h"

struct arrays {
    char *a;
    double *b;
    float *c;
};

static void place(struct arrays *x, size_t n, struct mf_arena *to)
{
    x->a = mf_arena_take(to, 3, 1);
    x->b = mf_arena_take(to, n, sizeof *x->b);
    x->c = mf_arena_take(to, 0, sizeof *x->c);
}

int main(void)
{
    struct arrays x;
    struct mf_err err;
    struct mf_arena arena = {0};
    place(&x, 9, &arena);
    ok(!x.a && !x.b && arena.used == 64 + 128, "an empty arena counts: %zu bytes", arena.used);
    ok(mf_arena_alloc(&arena, "the test", &err) == 0 && arena.used == 0 && arena.size == 64 + 128, "then it allocates");
    place(&x, 9, &arena);
    memset(x.a, 1, 3);
    ok(x.b[0] == 0 && x.b[8] == 0 && (uintptr_t)x.a % 64 == 0 && (uintptr_t)x.b % 64 == 0 && arena.used == arena.size,
       "and gives the same again, zeroed and aligned");
    mf_arena_release(&arena);

    const size_t too_many[] = {SIZE_MAX / 8, SIZE_MAX / 9, SIZE_MAX};
    for (int i = 0; i < 3; i++) {
        place(&x, too_many[i], &arena);
        place(&x, too_many[i], &arena);
        ok(mf_arena_alloc(&arena, "the test", &err) == MF_ENOMEM && strstr(err.text, "bytes for the test"), "%s",
           err.text);
        mf_arena_release(&arena);
    }
    return done();
}
