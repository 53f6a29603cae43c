/* note.h - the small MessagePack maps by which the two ends of a socket speak about what travels.
 *
 *   {mf: "edge", say: "want", ...}   a form lists the fields; a field that is not in it is a later version's
 */
#ifndef MF_WIRE_NOTE_H
#define MF_WIRE_NOTE_H

#include <stdbool.h>
#include <stddef.h>

enum { MF_NOTE_MAX = 4096 }; /* bytes of a packed note */

struct mf_note_field {
    const char *name;
    size_t at;   /* offsetof the field in the note's struct */
    size_t size; /* of a char array with its NUL; 0: an int64_t */
};

struct mf_note_form {
    const char *mf;                     /* its kind */
    const char *const *words;           /* what `say` may be; the note's struct begins with the int of its place here */
    const struct mf_note_field *fields; /* both lists end with a NULL name */
};

size_t mf_note_write(const struct mf_note_form *form, const void *note, char bytes[MF_NOTE_MAX]); /* how many */
/* Fields that did not come stay as they are in *note. */
bool mf_note_read(const struct mf_note_form *form, void *note, const void *bytes, size_t size);

#endif
