#include "rl/staleness.h"

#include <string.h>

#include "base/log.h"
#include "flow/frames.h"

/* The version that sampled the part; the newest where the slice has none. */
static int read_version(const struct mf_policy *p, const struct mf_frame *slice, int64_t *version, struct mf_err *err)
{
    *version = p->version;
    if (mf_frame_has(slice, "policy.version")) {
        int rc = mf_frame_get_int(slice, "policy.version", version, err);
        if (rc)
            return rc;
    }
    if (*version < 0 || *version > p->version)
        return mf_err_set(err, MF_EFORMAT, "round %lld was made by policy version %lld, the learner is at %lld",
                          (long long)p->iter, (long long)*version, (long long)p->version);
    return 0;
}

/* All slices must have one version, so that callers read it from the first slice. */
static int check_versions(const struct mf_policy *p, const struct mf_round_part *part, int64_t *version,
                          struct mf_err *err)
{
    int rc = read_version(p, part->slices[0], version, err);
    for (int i = 1; rc == 0 && i < part->n; i++) {
        int64_t other;
        if ((rc = read_version(p, part->slices[i], &other, err)) == 0 && other != *version)
            rc = mf_err_set(err, MF_EFORMAT, "round %lld has slices of policy versions %lld and %lld",
                            (long long)p->iter, (long long)*version, (long long)other);
    }
    return rc;
}

static int check_encoder(const struct mf_policy *p, const struct mf_frame *slice, struct mf_err *err)
{
    char own[17];
    const char *digest;
    if (!p->spec.net.encoded)
        return 0;
    mf_policy_encoder_digest(p, own);
    if (mf_frame_get_str(slice, "policy.encoder", &digest, err))
        return err->code;
    if (strcmp(digest, own) != 0)
        return mf_err_set(err, MF_EUSAGE,
                          "round %lld carries encodings by another encoder than the learner's: give the collector's "
                          "policy.checkpoint, or collect with training.freeze_encoder=false",
                          (long long)p->iter);
    return 0;
}

int mf_staleness_check(struct mf_staleness *s, const struct mf_policy *p, const char *digest,
                       const struct mf_round_part *part, struct mf_err *err)
{
    const char *theirs = "";
    struct mf_err ignored;
    int64_t version;
    int rc = check_versions(p, part, &version, err);
    if (rc || (rc = check_encoder(p, part->slices[0], err)))
        return rc;
    (void)mf_frame_get_str(part->slices[0], "policy.digest", &theirs, &ignored);
    if (version == p->version && *theirs && strcmp(theirs, digest) != 0 && s->foreign++ == 0)
        mf_log(MF_LOG_WARN,
               "the weights that sampled round %lld differ from the learner's (%s): training is off-policy",
               (long long)p->iter, digest);
    if (version >= s->first && p->version - version <= s->max_lag)
        return 0;
    s->dropped++;
    mf_log(MF_LOG_WARN,
           "round %lld is dropped: its policy version %lld is older than collect.max_lag=%lld or the learner's first "
           "version allows",
           (long long)p->iter, (long long)version, (long long)s->max_lag);
    return 1;
}
