/* note.h - small MessagePack maps: the control messages between the two ends of a socket.
 *
 *   {mf: "edge", say: "want", ...}   a form lists the fields; unknown fields are ignored, as later versions may add
 * some
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
    const char *mf;           /* its kind */
    const char *const *words; /* values of `say`; the note's struct begins with an int, the index into this list */
    const struct mf_note_field *fields; /* both lists end with a NULL name */
};

size_t mf_note_write(const struct mf_note_form *form, const void *note, char bytes[MF_NOTE_MAX]); /* how many */
/* Missing fields stay unchanged in *note. */
bool mf_note_read(const struct mf_note_form *form, void *note, const void *bytes, size_t size);

#endif
