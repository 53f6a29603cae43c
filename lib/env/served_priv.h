/* served_priv.h - shared by served.c (the servers) and batch.c (the stepper of their environments). */
#ifndef MF_ENV_SERVED_PRIV_H
#define MF_ENV_SERVED_PRIV_H

#include "base/name.h"
#include "env/served.h"
#include "env/talk.h"

enum mf_autoreset { MF_SAME_STEP, MF_NEXT_STEP, MF_DISABLED };

struct mf_server {
    struct mf_rpc *call;
    int64_t seq; /* of the last request */
    int restarts;
    int first, count; /* its share of the environments */
    int rc;           /* of its request, while requests to several servers are pending */
    struct mf_err fault;
};

struct mf_served {
    struct mf_env env; /* as the first server described it */
    struct mf_env_opts opts;
    char name[MF_NAME_BYTES], likes[512];
    char *lines;       /* its tasks, each with a NUL at its end; NULL: no language */
    const char **task; /* (n_tasks + 1) */
    int n_tasks;
    float *bound; /* (2, A) low, high */
    enum mf_autoreset autoreset;
    bool saves, renders;
    int n_servers;
    struct mf_server *server;
};

/* The first server's reply describes the environment. */
int mf_served_greet(struct mf_served *s, struct mf_server *w, struct mf_err *err);
/* Starts servers for N environments: *n of them. */
int mf_served_start(struct mf_served *s, int N, int *n, struct mf_err *err);

struct mf_frame *mf_server_question(struct mf_server *w, const char *say);
int mf_server_ask(struct mf_served *s, struct mf_server *w, struct mf_frame *f, struct mf_err *err); /* f is freed */
int mf_server_answer(struct mf_served *s, struct mf_server *w, struct mf_frame **f, struct mf_err *err);

/* A fault that a restart may fix: the server died, disconnected, timed out, or reported an error. */
bool mf_served_is_fault(int rc);
/* Replaces the server; *err is the fault. The new one has no environments yet. */
int mf_server_revive(struct mf_served *s, struct mf_server *w, struct mf_err *err);

#endif
