/* json.h - what all JSON but a frame's (frame_json.h) needs beside jansson: text of any bytes, numbers that may not be
 * finite, reals of nine digits, which bring a float32 back.
 */
#ifndef MF_STREAM_JSON_H
#define MF_STREAM_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "base/err.h"

/* Parses JSON of a foreign file. MF_EFORMAT where it is invalid, has a key twice or more values than memory should be
 * spent on. */
int mf_json_parse(json_t **j, const char *bytes, size_t n, struct mf_err *err);
int mf_json_open(json_t **j, const char *path, struct mf_err *err); /* the same of a whole file */

json_t *mf_json_text(const char *s);       /* bytes that are no UTF-8 become U+FFFD; NULL is null */
json_t *mf_json_number(double v);          /* null where v is not finite */
double mf_json_number_of(const json_t *j); /* NaN where j is no number, or NULL */

json_t *mf_json_sizes(const size_t *v, int n); /* [v[0], ..] */

/* Adds a member, which it takes; the key may be any text, as mf_json_text's. */
void mf_json_set(json_t *object, const char *key, json_t *value);

enum { MF_JSON_AS = JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY };
/* On one line, then `end`. Takes j. */
int mf_json_write(json_t *j, const char *end, FILE *to, struct mf_err *err);

#endif
