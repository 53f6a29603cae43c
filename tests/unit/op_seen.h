/* op_seen.h - the operations of lib that the graphs of a test hold, so that a table lacks none. */
#ifndef MF_OP_SEEN_H
#define MF_OP_SEEN_H

#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "graph/record.h"
#include "tap.h"

struct seen {
    glob_t files; /* of operations */
    bool has[256];
};

/* The operation that has a name, or -1: lib/ROOM/op_NAME.c is its file. */
static int op_named(const struct seen *s, const char *name)
{
    char end[64];
    int n = snprintf(end, sizeof end, "/op_%s.c", name);
    for (size_t i = 0; i < s->files.gl_pathc; i++) {
        const char *path = s->files.gl_pathv[i];
        if (strlen(path) > (size_t)n && !strcmp(path + strlen(path) - (size_t)n, end))
            return (int)i;
    }
    return -1;
}

static struct seen seen_new(void)
{
    struct seen s = {0};
    glob("lib/*/op_*.c", 0, NULL, &s.files);
    return s;
}

/* The operations of y, without the products of inputs that stand for operands. */
static void see(struct seen *s, struct mf_graph *g, struct mf_val y)
{
    for (int i = 0; i <= g->value[y.id].node; i++) {
        const struct mf_node *nd = &g->node[i];
        int op = op_named(s, nd->op->name);
        bool operand = !strcmp(nd->op->name, "linear") && g->value[nd->x[0]].node < 0;
        if (op >= 0 && !operand)
            s->has[op] = true;
    }
}

static void all_seen(struct seen *s)
{
    ok(s->files.gl_pathc > 20 && s->files.gl_pathc < 256, "lib has %zu operations", s->files.gl_pathc);
    for (size_t i = 0; i < s->files.gl_pathc; i++)
        ok(s->has[i], "%s has a row", s->files.gl_pathv[i]);
    globfree(&s->files);
}

#endif
