/* fields.h - a policy's spec, field by field, as text: for checkpoints, heads and sentences. Private to lib/flow. */
#ifndef MF_FLOW_FIELDS_H
#define MF_FLOW_FIELDS_H

#include "base/err.h"
#include "flow/spec.h"

enum { MF_SPEC_TEXT = 2048 };       /* bytes that hold any field's text */
enum { MF_SPEC_DIM_MAX = 1 << 20 }; /* of any one size: what is bigger is no policy but a broken file */

enum mf_spec_form {
    MF_SPEC_INT,
    MF_SPEC_FLOAT,
    MF_SPEC_BOOL,
    MF_SPEC_CHOICE, /* an enum */
    MF_SPEC_INTS,   /* int n, v[MF_DIMS_MAX] */
    MF_SPEC_NET,
    MF_SPEC_OBS,
    MF_SPEC_NAME /* char [64]; "" is nobody's, and agrees with every name */
};

struct mf_spec_field {
    const char *name, *key; /* in head and metadata; "policy.horizon", or NULL: the environment or the data says it */
    enum mf_spec_form form;
    size_t at;          /* offset in the spec */
    const char *words;  /* of a choice, "joint|single" */
    bool learned;       /* shapes the network or what it learned; the rest may change when training goes on */
    uint64_t size;      /* its MF_SIZE, of the networks that read it alone; 0: of every policy */
    bool step;          /* of networks that take a step size alone */
    const char *absent; /* its text where a file or a head has none; NULL: each must have it */
};
extern const struct mf_spec_field mf_spec_fields[];
extern const int mf_spec_n;
/* The fields of this spec, in order: the one after f, or the first after NULL; NULL: no more. Its network comes first.
 */
const struct mf_spec_field *mf_spec_next(const struct mf_policy_spec *s, const struct mf_spec_field *f);

void mf_spec_text(const struct mf_policy_spec *s, const struct mf_spec_field *f, char text[MF_SPEC_TEXT]);
const char *mf_spec_value(const struct mf_policy_spec *s, const char *field, char text[MF_SPEC_TEXT]); /* text */
/* MF_EFORMAT where the text is no value of the field. `where` names its place in the sentence. */
int mf_spec_set(struct mf_policy_spec *s, const struct mf_spec_field *f, const char *text, const char *where,
                struct mf_err *err);
void mf_spec_add_ints(char text[MF_SPEC_TEXT], const int *v, int n); /* appends "[256,256]" */
void mf_spec_add(char text[MF_SPEC_TEXT], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mf_spec_copy(struct mf_policy_spec *to, const struct mf_policy_spec *from, const struct mf_spec_field *f);

bool mf_spec_same(const struct mf_spec_field *f, const char *x, const char *y); /* do two texts of it agree? */
/* The first learned field (`all`: any field) in which they differ: MF_EUSAGE with both values. */
int mf_spec_agree(const struct mf_policy_spec *a, const char *a_name, const struct mf_policy_spec *b,
                  const char *b_name, bool all, struct mf_err *err);

#endif
