#include "nn/encoder.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

struct mf_share mf_net_features(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val obs, bool frozen)
{
    struct mf_share share = {.raw = obs, .obs = obs};
    if (mf_net_reads_pictures(s))
        mf_encode_pictures(g, s, false, frozen, &share);
    if (s->net->encoder)
        s->net->encoder(g, s, &share);
    for (int i = 0; i < 2 && frozen; i++)
        if (share.features[i].id)
            share.features[i] = mf_detach(g, share.features[i]);
    for (int i = 0; i < 2 * MF_LAYERS_MAX && frozen; i++)
        if (share.part[i].id)
            share.part[i] = mf_detach(g, share.part[i]);
    return share;
}

struct mf_val mf_net_tokens(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                            const struct mf_share *time, struct mf_val x)
{
    return s->net->tokens ? s->net->tokens(g, s, obs, time, x) : x;
}

struct mf_net_spec mf_net_encoded(const struct mf_net_spec *s)
{
    struct mf_net_spec e = *s;
    struct mf_obs code;
    int n = 1, whole = 0, of = mf_net_reads_pictures(s) ? mf_encoder_encoding(s, &code, &n) : -1;
    if (s->net->encoding)
        of = s->net->encoding(s, &code);
    for (int i = of; i >= 0 && i < of + n; i++)
        whole += mf_obs_size(&s->obs.key[i]);
    if (of < 0 || mf_obs_size(&code) >= whole || mf_layout_column(&s->obs, MF_ENCODING) >= 0)
        return e;
    snprintf(code.name, sizeof code.name, "%s", MF_ENCODING);
    e.obs = (struct mf_layout){.n = 0};
    for (int i = 0; i < s->obs.n; i++)
        if (i < of || i >= of + n)
            mf_layout_add(&e.obs, &s->obs.key[i]);
        else if (i == of && mf_net_reads_pictures(s)) /* the features of pictures are read in their place */
            mf_layout_add(&e.obs, &code);
    if (!mf_net_reads_pictures(s))
        mf_layout_add(&e.obs, &code);
    e.encoded = mf_obs_size(&code);
    e.O = s->n_obs_steps * e.obs.dim;
    return e;
}

struct mf_val mf_net_value(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                           const struct mf_share *obs)
{
    if (s->net->value)
        return s->net->value(g, s, n_hidden, hidden, obs);
    if (!mf_net_reads_pictures(s))
        return mf_critic(g, n_hidden, hidden, obs->obs);
    struct mf_share own = {.raw = obs->raw, .obs = mf_detach(g, obs->obs)};
    if (s->critic_encoder == MF_CRITIC_OWN)
        mf_encode_pictures(g, s, true, false, &own);
    return mf_critic(g, n_hidden, hidden, own.obs);
}

struct mf_val mf_net_summary(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs)
{
    if (s->net->summary)
        return s->net->summary(g, s, obs);
    if (!s->net->value)
        return mf_detach(g, obs->obs);
    return mf_detach(g, mf_pool(g, mf_concat(g, 2, obs->features), 1, MF_POOL_MEAN));
}

int mf_net_find(const struct mf_net **net, const char *name, struct mf_err *err)
{
    char names[256] = "";
    for (size_t i = 0; mf_nets[i]; i++) {
        if (!strcmp(mf_nets[i]->name, name)) {
            *net = mf_nets[i];
            return 0;
        }
        mf_list_add(names, sizeof names, ", ", mf_nets[i]->name);
    }
    return mf_err_set(err, MF_EUSAGE, "policy.network=%s: no such network; available: %s", name, names);
}
