/* qnet.h - critics of an action chunk, Q(s, a): n MLPs over [action, observation], each of (Linear, LayerNorm,
 * activation) for every hidden width and a last Linear. Two are twins (Fujimoto et al. 2018), more an ensemble (Chen et
 * al. 2021, REDQ).
 *
 *   PREFIX.q_nets.I.{3l, 3l+1}.{weight,bias}    critic I, layer l: its Linear and its norm
 *   PREFIX.q_nets.I.{3 n_hidden}.{weight,bias}  its last Linear
 */
#ifndef MF_RL_QNET_H
#define MF_RL_QNET_H

#include "base/rng.h"
#include "dev/op.h"
#include "graph/graph.h"
#include "nn/net.h"

struct mf_qnet {
    const char *prefix;
    int n; /* critics */
    int n_hidden, hidden[MF_DIMS_MAX];
    enum mf_act act;
    /* Matrices begin orthogonal with gain sqrt(2), those of one row .01, and biases at 0; false: as PyTorch's. */
    bool ortho;
};

/* (1, n): each critic's value of the action (1, ..) and the observation (1, ..); of the observation alone, V(s), where
 * the action is MF_NONE. Its parameters are of MF_GROUP_CRITIC. */
struct mf_val mf_qnet(struct mf_graph *g, const struct mf_qnet *q, struct mf_val action, struct mf_val obs);
/* Adds sum_i weight (Q_i - y)^2 of twins, and its mean over an ensemble, to the loss; y and weight (1, 1). Returns the
 * mean over the critics in either case. */
struct mf_val mf_qnet_loss(struct mf_graph *g, const struct mf_qnet *q, struct mf_val values, struct mf_val y,
                           struct mf_val weight);
/* Two of n > 2 critics, drawn without replacement, whose smaller value is a target (REDQ). */
void mf_qnet_pair(int n, struct mf_rng *rng, int pair[2]);
float mf_qnet_min(const float *values, int n, const int *which); /* the smallest of n > 0 listed; NULL: of 0..n-1 */

#endif
