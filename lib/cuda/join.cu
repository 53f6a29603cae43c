/* join.cu - GPUs of several ranks: whether they go together, and the way from one to another. */
#include "cuda/nccl.h"

#include <cstdio>
#include <cstring>
#include <unistd.h>
#include <vector>

struct card { /* of a rank. nccl: its version; 0: none, and why */
    int gpus, nccl;
    char host[64], model[128], bus[MF_GPUS][32], why[256];
};

static struct mf_nccl *fill(struct card *c, const struct mf_dev *d)
{
    struct mf_err err;
    cudaDeviceProp p = {};
    *c = {};
    c->gpus = d->n_gpus;
    gethostname(c->host, sizeof c->host - 1);
    cudaGetDeviceProperties(&p, d->id[0]);
    snprintf(c->model, sizeof c->model, "%.100s", p.name);
    for (int g = 0; g < d->n_gpus; g++)
        cudaDeviceGetPCIBusId(c->bus[g], sizeof c->bus[g], d->id[g]);
    struct mf_nccl *n = mf_nccl_load(&err);
    if (n)
        c->nccl = mf_nccl_version(n);
    else
        snprintf(c->why, sizeof c->why, "%.250s", err.text);
    return n;
}

static int check(const std::vector<card> &all, struct mf_err *err)
{
    const struct card *first = &all[0];
    for (size_t k = 1; k < all.size(); k++) {
        const struct card *c = &all[k];
        if (c->gpus != first->gpus)
            return mf_err_set(
                err, MF_EUSAGE,
                "device=cuda: rank 0 on %s has %d GPUs, rank %zu on %s %d; all ranks need the same number of them",
                first->host, first->gpus, k, c->host, c->gpus);
        if (strcmp(c->model, first->model))
            return mf_err_set(err, MF_EUSAGE,
                              "device=cuda: rank 0 on %s has a %s, rank %zu on %s a %s; take GPUs of one model",
                              first->host, first->model, k, c->host, c->model);
    }
    return 0;
}

/* NCCL takes a GPU once. */
static bool share(const struct card *a, const struct card *b)
{
    for (int i = 0; i < a->gpus * b->gpus; i++)
        if (!strcmp(a->bus[i / b->gpus], b->bus[i % b->gpus]) && !strcmp(a->host, b->host))
            return true;
    return false;
}

/* Why NCCL cannot be tried; "": it can. */
static std::string obstacle(const std::vector<card> &all)
{
    char text[400] = "";
    for (size_t k = 0; k < all.size() && !*text; k++) {
        const struct card *c = &all[k];
        if (!c->nccl)
            snprintf(text, sizeof text, "rank %zu on %s: %s", k, c->host, c->why);
        for (size_t i = 0; i < k && !*text; i++)
            if (share(&all[i], c))
                snprintf(text, sizeof text, "ranks %zu and %zu share a GPU of %s", i, k, c->host);
    }
    return text;
}

int mf_cuda_join(struct mf_dev *d, struct mf_ranks *ranks, const struct mf_ranks_verbs *verbs, const char **how,
                 struct mf_err *err)
{
    std::vector<card> all(verbs->count(ranks));
    std::vector<size_t> each(all.size() + 1);
    struct mf_err why;
    for (size_t k = 0; k < each.size(); k++)
        each[k] = k;
    d->ranks = ranks;
    d->verbs = verbs;
    d->nccl = fill(&all[verbs->me(ranks)], d);
    int rc = verbs->await(ranks, err); /* they may have read files */
    if (rc || (rc = verbs->gather(ranks, all.data(), sizeof(card), each.data(), err)) || (rc = check(all, err)))
        return rc;
    std::string none = obstacle(all);
    if (none.empty() && (rc = mf_nccl_join(d->nccl, d, &why)) != 0) {
        if (rc != MF_EDEVICE) {
            *err = why;
            return rc;
        }
        none = why.text;
    }
    if (none.empty()) {
        int v = mf_nccl_version(d->nccl);
        d->exchange = "by NCCL " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
                      std::to_string(v % 100);
    } else {
        if (d->nccl)
            mf_nccl_abort(d->nccl);
        mf_nccl_close(d->nccl);
        d->nccl = NULL;
        d->exchange = "through the memory of the hosts, not by NCCL: " + none;
    }
    *how = d->exchange.c_str();
    return 0;
}
