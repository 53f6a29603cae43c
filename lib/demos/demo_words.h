/* demo_words.h - the observation "tokens" of demonstrations, made of their tasks in words.
 *
 * The task of a demo is its attribute `language`; where it has none, that of all demos of the file:
 * language_instruction in the JSON of /data's attribute problem_info, as LIBERO has it.
 */
#ifndef MF_DEMOS_DEMO_WORDS_H
#define MF_DEMOS_DEMO_WORDS_H

#include "demos/demos.h"
#include "demos/h5.h"

struct mf_demo_words;

int mf_demo_words_new(struct mf_demo_words **w, hid_t file, const char *tokenizer, int length, struct mf_err *err);
void mf_demo_words_free(struct mf_demo_words *w); /* NULL is fine */
/* Adds the next demo. MF_EFORMAT: it has no task; MF_EUSAGE: its task is too large. */
int mf_demo_words_add(struct mf_demo_words *w, hid_t file, const char *demo, struct mf_err *err);
const float *mf_demo_words_ids(const struct mf_demo_words *w, size_t demo); /* (length), without a state */

#endif
