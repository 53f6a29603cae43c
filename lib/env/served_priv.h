/* served_priv.h - what served.c (the servers) and batch.c (the stepper of their environments) share. */
#ifndef MF_ENV_SERVED_PRIV_H
#define MF_ENV_SERVED_PRIV_H

#include "base/name.h"
#include "env/served.h"
#include "env/talk.h"

enum mf_autoreset { MF_SAME_STEP, MF_NEXT_STEP, MF_DISABLED };

struct mf_server {
    struct mf_rpc *call;
    int64_t seq; /* of the question that was asked last */
    int restarts;
    int first, count; /* its share of the environments */
    int rc;           /* of the question that it was asked, beside the others */
    struct mf_err fault;
};

struct mf_served {
    struct mf_env env; /* as the first server described it */
    struct mf_env_opts opts;
    char name[MF_NAME_BYTES], likes[512];
    float *bound; /* (2, A) low, high */
    enum mf_autoreset autoreset;
    bool saves, renders;
    int n_servers;
    struct mf_server *server;
};

/* The first one that is greeted describes the environment. */
int mf_served_greet(struct mf_served *s, struct mf_server *w, struct mf_err *err);
/* At least as many servers as N environments are to have: *n. */
int mf_served_start(struct mf_served *s, int N, int *n, struct mf_err *err);

struct mf_frame *mf_server_question(struct mf_server *w, const char *say);
int mf_server_ask(struct mf_served *s, struct mf_server *w, struct mf_frame *f, struct mf_err *err); /* f is freed */
int mf_server_answer(struct mf_served *s, struct mf_server *w, struct mf_frame **f, struct mf_err *err);

/* It died, hung up, was silent, or said that it failed: what a restart may mend. */
bool mf_served_is_fault(int rc);
/* Another in its place; *err is the fault. It knows of no environments yet. */
int mf_server_revive(struct mf_served *s, struct mf_server *w, struct mf_err *err);

#endif
