/* compose.h - composes a configuration from files as Hydra does: defaults lists, groups, packages.
 *
 * A file's `defaults:` names other files. "- policy: reinflow" is the option reinflow of the group policy, the file
 * policy/reinflow.yaml, whose keys go into the package policy; "- base" a file of the same folder. Later entries win;
 * the file itself comes at _self_ in its list, otherwise last.
 */
#ifndef MF_CONF_COMPOSE_H
#define MF_CONF_COMPOSE_H

#include <sys/stat.h>

#include "conf/parse.h"

enum { MF_FOLDERS_MAX = 16, MF_PATH_BYTES = 1024, MF_OPTIONS_MAX = 256 };

/* Search path for files. */
struct mf_folders {
    int n;
    char *path[MF_FOLDERS_MAX];
};

/* An option of a group, chosen by a word or an `override` entry. */
struct mf_option {
    char *group;      /* "policy", "policy@expert" */
    char *option;     /* NULL: leave the group out */
    char *where;      /* NULL: a word */
    bool appended;    /* +group=option: one more entry */
    bool used;        /* a defaults list has this group */
    bool is_override; /* of a list: it must be used */
};

struct mf_options_chosen {
    int n;
    struct mf_option *of;
};

void mf_folders_add(struct mf_folders *f, const char *path, size_t n); /* the first n characters */
void mf_folders_release(struct mf_folders *f);
/* Finds the file (S_IFREG) or folder (S_IFDIR) in the first folder that has it. */
bool mf_folders_find(const struct mf_folders *f, const char *name, const char *suffix, mode_t type,
                     char to[MF_PATH_BYTES]);
bool mf_folders_have_group(const struct mf_folders *f, const char *group);
/* The options of a group, sorted, once each; malloc'ed names. Returns how many. */
int mf_folders_options(const struct mf_folders *f, const char *group, char *name[MF_OPTIONS_MAX]);
/* "a, b, c": the options of a group, for those who asked for another. */
void mf_folders_list(const struct mf_folders *f, const char *group, char *to, size_t size);

void mf_options_choose(struct mf_options_chosen *c, const char *group, const char *option, const char *where);
/* What was chosen for a group; NULL: nothing. */
struct mf_option *mf_options_find(const struct mf_options_chosen *c, const char *key);
void mf_options_forget(struct mf_options_chosen *c);

/* Merge the file at a path, or `name`.yaml of the folders, into root; files are numbered on in *reading. NULL: nothing
 * but what was appended. */
int mf_compose(struct mf_item *root, int *reading, struct mf_folders *folders, const char *name, bool is_path,
               struct mf_options_chosen *chosen, struct mf_err *err);

#endif
