/* given_grads.h - a plan whose gradients a test chooses: sample s selects column s of every parameter, and weighs its
 * rows by their gradients. */
#ifndef MF_GIVEN_GRADS_H
#define MF_GIVEN_GRADS_H

#include <stdio.h>
#include <stdlib.h>

#include "graph/plan.h"
#include "op/ops.h"

enum { GIVEN_MOST = 4 };

struct given {
    struct mf_engine *engine;
    struct mf_params *ps;
    struct mf_graph *graph;
    struct mf_plan *plan;
    struct mf_val show[GIVEN_MOST], weigh[GIVEN_MOST], none[GIVEN_MOST];
    int n, columns; /* parameters that have gradients; columns of the widest */

    struct mf_feed feed[3 * GIVEN_MOST];
    float *room[3 * GIVEN_MOST];
    struct mf_batch batch;
};

static inline struct mf_val given_sum(struct mf_graph *g, struct mf_val x)
{
    char name[32];
    snprintf(name, sizeof name, "ones.%d", mf_cols(g, x));
    int W = mf_param_add(mf_graph_params(g), name, 1, mf_cols(g, x), 2, MF_GROUP_BUFFER, MF_INIT_CONST, 1.0f);
    return mf_linear(g, x, W, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
}

/* Gradients for the first n of ps. ps has no values yet and gets initial ones. */
static inline void given_open(struct given *l, struct mf_engine *e, struct mf_params *ps, int n)
{
    struct mf_err err;
    *l = (struct given){.engine = e, .ps = ps, .n = n, .graph = mf_graph_new(ps)};
    for (int i = 0; i < n; i++) {
        const int rows = ps->p[i].rows, cols = ps->p[i].cols;
        l->columns = cols > l->columns ? cols : l->columns;
        l->show[i] = mf_input(l->graph, 1, cols);
        l->weigh[i] = mf_input(l->graph, 1, rows);
        l->none[i] = mf_input(l->graph, 1, rows);
        struct mf_val y = mf_linear(l->graph, l->show[i], i, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
        mf_loss(l->graph, given_sum(l->graph, mf_gate(l->graph, l->none[i], y, l->weigh[i], 0)), 1);
    }
    mf_params_alloc(ps, &err);
    mf_params_fresh(ps, 9);
    if (mf_plan_new(&l->plan, e, l->graph, &(struct mf_plan_opts){.backward = true}, &err)) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}

static inline void given_clear(struct given *l)
{
    for (int i = 0; i < 3 * l->n; i++)
        free(l->room[i]);
}

static inline void given_close(struct given *l)
{
    given_clear(l);
    mf_plan_free(l->plan);
    mf_graph_free(l->graph);
}

/* The run that has these gradients, laid out as ps->value; valid until the next. */
static inline const struct mf_batch *given_run(struct given *l, const float *grads)
{
    const size_t N = (size_t)l->columns;
    given_clear(l);
    for (int i = 0; i < l->n; i++) {
        const struct mf_param *p = &l->ps->p[i];
        size_t rows = (size_t)p->rows, cols = (size_t)p->cols;
        float *show = calloc(N * cols, sizeof *show), *weigh = calloc(N * rows, sizeof *weigh),
              *none = calloc(N * rows, sizeof *none);
        for (size_t s = 0; s < cols; s++) {
            show[s * cols + s] = 1;
            for (size_t r = 0; r < rows; r++)
                weigh[s * rows + r] = grads[p->at + r * cols + s];
        }
        l->room[3 * i] = show, l->room[3 * i + 1] = weigh, l->room[3 * i + 2] = none;
        l->feed[3 * i] = (struct mf_feed){l->show[i], show, cols, false};
        l->feed[3 * i + 1] = (struct mf_feed){l->weigh[i], weigh, rows, false};
        l->feed[3 * i + 2] = (struct mf_feed){l->none[i], none, rows, false};
    }
    l->batch = (struct mf_batch){.n = N, .feed = l->feed, .n_feeds = 3 * l->n};
    return &l->batch;
}

#endif
