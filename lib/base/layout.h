/* layout.h - the layout of an observation: named arrays, concatenated in one flat vector of floats.
 *
 * Environments, demonstrations, policies and networks share it. In the flat vector a uint8 becomes the float of the
 * same value, 0 to 255; in streams and files it stays uint8.
 */
#ifndef MF_BASE_LAYOUT_H
#define MF_BASE_LAYOUT_H

#include <stdbool.h>

enum { MF_OBS_KEYS = 8, MF_OBS_RANK = 3 };

struct mf_obs {
    char name[64];        /* "point_cloud": array obs/point_cloud of the stream */
    int dim[MF_OBS_RANK]; /* {1024, 6}; 0 after the last */
    bool u8;              /* uint8, else float32 */
};

struct mf_layout {
    int n, dim; /* keys; floats of them all */
    struct mf_obs key[MF_OBS_KEYS];
};

/* The fault in the name of an observation, as the end of a sentence; NULL: the name is valid. A name is 1 to 63 bytes
 * of UTF-8 without control characters. Slashes separate groups ("policy/joint_pos"); each part must be a valid name. */
const char *mf_obs_name_fault(const char *name);
/* Can the two names not be stored in one HDF5 file? They are equal, or one is a group of the other ("a" and "a/b"). */
bool mf_obs_names_clash(const char *a, const char *b);

int mf_obs_rank(const struct mf_obs *o);
int mf_obs_size(const struct mf_obs *o);                           /* number of floats: the product of its dims */
bool mf_layout_add(struct mf_layout *l, const struct mf_obs *o);   /* append; false: it already has MF_OBS_KEYS keys */
int mf_layout_column(const struct mf_layout *l, const char *name); /* its first float; -1: no such key */
bool mf_obs_is_cloud(const struct mf_obs *o);                      /* points (n, channels) */
void mf_layout_points(struct mf_layout *l, int n);                 /* give every cloud n points */

#endif
