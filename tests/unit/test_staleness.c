/* Which rounds may be learned from: by version, by the weights that they name, by the encoder of their encodings. */
#include <string.h>

#include "policies.h"
#include "flow/frames.h"
#include "rl/staleness.h"

static struct mf_err err;

/* The check of a part with this version (none below -1), digest and encoder (NULL: none). */
static int says(struct mf_staleness *s, const struct mf_policy *p, const char *digest, int64_t version,
                const char *theirs, const char *encoder)
{
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    if (version > -2)
        mf_frame_set_int(f, "policy.version", version);
    if (theirs)
        mf_frame_set_str(f, "policy.digest", theirs);
    if (encoder)
        mf_frame_set_str(f, "policy.encoder", encoder);
    int rc = mf_staleness_check(s, p, digest, &(struct mf_round_part){.src = "", .slices = &f, .n = 1}, &err);
    mf_frame_free(f);
    return rc;
}

static void versions(struct mf_policy *p)
{
    struct mf_staleness s = {.max_lag = 1, .first = 3};
    p->version = 5;
    ok(says(&s, p, "mine", 5, NULL, NULL) == 0 && says(&s, p, "mine", 4, NULL, NULL) == 0,
       "this version and the one before may be learned from with max_lag 1");
    ok(says(&s, p, "mine", -2, NULL, NULL) == 0, "so may rollouts that name none");
    ok(s.dropped == 0 && says(&s, p, "mine", 3, NULL, NULL) == 1 && s.dropped == 1, "an older one is dropped, counted");
    s = (struct mf_staleness){.max_lag = 1, .first = 5};
    ok(says(&s, p, "mine", 4, NULL, NULL) == 1, "as is one from before this learner's start");
    ok(says(&s, p, "mine", 6, NULL, NULL) == MF_EFORMAT && strstr(err.text, "version 6, the learner is at 5"),
       "one that is not made yet is refused");
    ok(says(&s, p, "mine", -1, NULL, NULL) == MF_EFORMAT && s.dropped == 1, "and one below 0");

    struct mf_frame *slice[] = {mf_frame_new(MF_ROLLOUT), mf_frame_new(MF_ROLLOUT)};
    const struct mf_round_part part = {.src = "", .slices = slice, .n = 2};
    static const struct {
        int64_t version;
        int rc;
        const char *says;
    } second[] = {{5, 0, ""}, {4, MF_EFORMAT, "slices of policy versions 5 and 4"}, {-5, MF_EFORMAT, "version -5"}};
    mf_frame_set_int(slice[0], "policy.version", 5);
    for (size_t i = 0; i < sizeof second / sizeof *second; i++) {
        mf_frame_set_int(slice[1], "policy.version", second[i].version);
        ok(mf_staleness_check(&s, p, "mine", &part, &err) == second[i].rc && strstr(err.text, second[i].says),
           "a second slice of version %lld", (long long)second[i].version);
    }
    mf_frame_free(slice[0]);
    mf_frame_free(slice[1]);
}

static void weights(struct mf_policy *p)
{
    struct mf_staleness s = {.max_lag = 1};
    ok(says(&s, p, "mine", 5, "mine", NULL) == 0 && s.foreign == 0, "the learner's weights are not foreign");
    ok(says(&s, p, "mine", 5, "yours", NULL) == 0 && s.foreign == 1, "others are, and may be learned from");
    ok(says(&s, p, "mine", 4, "yours", NULL) == 0 && s.foreign == 1, "an older version's are not compared");
}

static void encoders(struct mf_policy *p)
{
    struct mf_staleness s = {.max_lag = 1};
    char own[17];
    mf_policy_encoder_digest(p, own);
    ok(says(&s, p, "mine", 5, NULL, "other") == 0, "observations as they are need no encoder");
    p->spec.net.encoded = 1;
    ok(says(&s, p, "mine", 5, NULL, own) == 0, "encodings by the learner's encoder may be learned from");
    ok(says(&s, p, "mine", 5, NULL, "other") == MF_EUSAGE && strstr(err.text, "freeze_encoder=false"),
       "by another they are refused, with advice");
    ok(says(&s, p, "mine", 5, NULL, NULL) == MF_EFORMAT, "nor may it be left out");
}

int main(void)
{
    struct mf_policy p;
    struct mf_policy_spec spec = small_spec("reflow_mlp");
    must(mf_policy_init(&p, &spec, &err), &err);
    versions(&p);
    weights(&p);
    encoders(&p);
    mf_policy_release(&p);
    return done();
}
