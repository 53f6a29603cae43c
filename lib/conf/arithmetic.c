/* arithmetic.c - ${eval:'..'} with Python's semantics, as configurations written for Hydra expect them: integers stay
 * integers except in a division, // and % round down, ** binds closer than a sign, int() and round() give integers.
 *
 * No C library has these semantics. muParser has no integers, no // and no %, and loads the C++ runtime: a program that
 * starts in 1.0 ms then takes 2.1 ms. Lua's powers are never integers, and a configuration needs no language.
 * libmatheval needs Guile.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conf/resolve.h"

enum { NESTED_MAX = 32 };

struct number {
    double v;
    bool whole;
};

struct cursor {
    const char *s;
    int depth;
    bool bad;
};

static struct number expression(struct cursor *e);

static bool eat(struct cursor *e, const char *token)
{
    e->s += strspn(e->s, " \t\n");
    const size_t n = strlen(token);
    if (strncmp(e->s, token, n))
        return false;
    e->s += n;
    return true;
}

/* Python rounds a half to the even neighbour, as rint does. */
static struct number call(struct cursor *e, const char *name, size_t n)
{
    struct number x = expression(e);
    const bool least = n == 3 && !strncmp(name, "min", n), most = n == 3 && !strncmp(name, "max", n);
    while ((least || most) && eat(e, ",")) {
        struct number y = expression(e);
        x = (least ? y.v < x.v : y.v > x.v) ? y : x;
    }
    if (n == 5 && !strncmp(name, "round", n))
        x = (struct number){rint(x.v), true};
    else if (n == 3 && !strncmp(name, "int", n))
        x = (struct number){trunc(x.v), true};
    else if (n == 5 && !strncmp(name, "float", n))
        x.whole = false;
    else if (n == 3 && !strncmp(name, "abs", n))
        x.v = fabs(x.v);
    else
        e->bad |= !least && !most;
    e->bad |= !eat(e, ")");
    return x;
}

/* 12, .5, 1e-3, 200_000. */
static struct number literal(struct cursor *e)
{
    char plain[64] = "", *to = plain, *end;
    const char *from = e->s;
    for (; to < plain + sizeof plain - 1; from++)
        if (isdigit((unsigned char)*from) || *from == '.' ||
            (to > plain && strchr("+-", *from) && strchr("eE", to[-1])))
            *to++ = *from;
        else if (to > plain && (*from == 'e' || *from == 'E'))
            *to++ = *from;
        else if (*from != '_' || !isdigit((unsigned char)from[1]))
            break;
    *to = '\0';
    const double v = strtod(plain, &end);
    e->bad |= end == plain || *end;
    e->s = from;
    return (struct number){v, !strpbrk(plain, ".eE")};
}

static struct number atom(struct cursor *e)
{
    struct number x = {0, false};
    if (eat(e, "(")) {
        x = expression(e);
        e->bad |= !eat(e, ")");
    } else if (isalpha((unsigned char)*e->s)) {
        const char *name = e->s;
        while (isalpha((unsigned char)*e->s))
            e->s++;
        const size_t n = (size_t)(e->s - name);
        if (!eat(e, "("))
            e->bad = true;
        else
            x = call(e, name, n);
    } else {
        x = literal(e);
    }
    return x;
}

static struct number unary(struct cursor *e)
{
    if (++e->depth > NESTED_MAX || e->bad) {
        e->bad = true;
        return (struct number){0, true};
    }
    struct number x;
    if (eat(e, "-")) {
        x = unary(e);
        x.v = -x.v;
    } else if (eat(e, "+")) {
        x = unary(e);
    } else {
        x = atom(e);
        if (eat(e, "**")) {
            struct number y = unary(e);
            x = (struct number){pow(x.v, y.v), x.whole && y.whole && y.v >= 0};
        }
    }
    e->depth--;
    return x;
}

static struct number term(struct cursor *e)
{
    struct number x = unary(e);
    for (;;) {
        if (eat(e, "//") || (e->s[0] == '%' && eat(e, "%"))) {
            const bool floored = e->s[-1] == '/';
            struct number y = unary(e);
            const double q = floor(x.v / y.v);
            e->bad |= y.v == 0;
            x = (struct number){floored ? q : x.v - q * y.v, x.whole && y.whole};
        } else if (eat(e, "/")) {
            struct number y = unary(e);
            e->bad |= y.v == 0;
            x = (struct number){x.v / y.v, false};
        } else if (eat(e, "*")) {
            struct number y = unary(e);
            x = (struct number){x.v * y.v, x.whole && y.whole};
        } else {
            return x;
        }
    }
}

static struct number expression(struct cursor *e)
{
    struct number x = term(e);
    for (;;) {
        const bool plus = eat(e, "+");
        if (!plus && !eat(e, "-"))
            return x;
        struct number y = term(e);
        x = (struct number){plus ? x.v + y.v : x.v - y.v, x.whole && y.whole};
    }
}

int mf_arithmetic(const char *text, struct mf_item **to, struct mf_err *err)
{
    struct cursor e = {.s = text};
    struct number x = expression(&e);
    char out[40];
    eat(&e, "");
    if (e.bad || *e.s || !isfinite(x.v) || (x.whole && fabs(x.v) > 9e15))
        return mf_err_set(
            err, MF_EUSAGE,
            "'%.128s' is not an arithmetic expression (+ - * / // %% ** and round, int, float, abs, min, max)", text);
    if (x.whole)
        snprintf(out, sizeof out, "%.0f", x.v);
    else
        mf_float_text(out, sizeof out, x.v);
    *to = mf_item_scalar(out, false, MF_YAML);
    return 0;
}
