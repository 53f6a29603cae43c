/* fields.h - a policy's spec, field by field, as text: for checkpoints, heads and error messages. Private to lib/flow.
 */
#ifndef MF_FLOW_FIELDS_H
#define MF_FLOW_FIELDS_H

#include "base/err.h"
#include "flow/spec.h"

enum { MF_SPEC_TEXT = 2048 };       /* bytes that hold any field's text */
enum { MF_SPEC_DIM_MAX = 1 << 20 }; /* limit of every size: a larger one comes from a broken file */

enum mf_spec_form {
    MF_SPEC_INT,
    MF_SPEC_FLOAT,
    MF_SPEC_BOOL,
    MF_SPEC_CHOICE, /* an enum */
    MF_SPEC_INTS,   /* int n, v[MF_DIMS_MAX] */
    MF_SPEC_NET,
    MF_SPEC_ENCODER,
    MF_SPEC_OBS,
    MF_SPEC_NAME /* char [64]; "" is unknown and agrees with every name */
};

struct mf_spec_field {
    const char *name, *key; /* in head and metadata; "policy.horizon". NULL: set by environment or data */
    enum mf_spec_form form;
    size_t at;          /* offset in the spec */
    const char *words;  /* of a choice, "joint|single"; of an integer, its range "[1,64]", or NULL */
    bool learned;       /* determines the network or its training; other fields may change between runs */
    uint64_t size;      /* its MF_SIZE: only networks that read it have it; 0: every policy */
    bool step;          /* only networks with a step size have it */
    bool prompt;        /* only policies that read tokens have it */
    bool picture;       /* only policies that read pictures have it */
    bool fpo;           /* only policies with an objective of FPO have it */
    bool steer;         /* only policies with policy.steer have it, but for that field itself */
    const char *absent; /* its text if a file or a head lacks it; NULL: it is mandatory */
};
extern const struct mf_spec_field mf_spec_fields[];
extern const int mf_spec_n;
/* The fields of this spec, in order: the one after f, or the first after NULL; NULL: no more. Observations, network and
 * encoder come before the fields that depend on them. */
const struct mf_spec_field *mf_spec_next(const struct mf_policy_spec *s, const struct mf_spec_field *f);

void mf_spec_text(const struct mf_policy_spec *s, const struct mf_spec_field *f, char text[MF_SPEC_TEXT]);
const char *mf_spec_value(const struct mf_policy_spec *s, const char *field, char text[MF_SPEC_TEXT]); /* text */
/* MF_EFORMAT where the text is no value of the field. `where`: its place, for the error. */
int mf_spec_set(struct mf_policy_spec *s, const struct mf_spec_field *f, const char *text, const char *where,
                struct mf_err *err);
void mf_spec_add_ints(char text[MF_SPEC_TEXT], const int *v, int n); /* appends "[256,256]" */
void mf_spec_add(char text[MF_SPEC_TEXT], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mf_spec_copy(struct mf_policy_spec *to, const struct mf_policy_spec *from, const struct mf_spec_field *f);

bool mf_spec_same(const struct mf_spec_field *f, const char *x, const char *y); /* are two texts of it equal? */
/* MF_EUSAGE, with both values, for the first learned field (`all`: any field) that differs. */
int mf_spec_agree(const struct mf_policy_spec *a, const char *a_name, const struct mf_policy_spec *b,
                  const char *b_name, bool all, struct mf_err *err);

#endif
