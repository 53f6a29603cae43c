/* The small maps of ports and of the policy's edge on any bytes: what is read is written and read again as it was. */
#include <stdlib.h>
#include <string.h>

#include "wire/edge_priv.h"
#include "wire/port_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void again(const struct mf_note_form *form, const void *note, void *other, size_t size)
{
    char bytes[MF_NOTE_MAX];
    if (!mf_note_read(form, other, bytes, mf_note_write(form, note, bytes)) || memcmp(note, other, size))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mf_edge_note edge, edge_again;
    struct mf_port_note port, port_again;
    memset(&edge, 0, sizeof edge);
    memset(&port, 0, sizeof port);
    if (mf_note_read(&mf_edge_form, &edge, data, size)) {
        for (const struct mf_note_field *f = mf_edge_form.fields; f->name; f++)
            if (f->size) { /* what was behind a shorter text */
                char *text = (char *)&edge + f->at;
                memset(text + strlen(text), 0, f->size - strlen(text));
            }
        memset(&edge_again, 0, sizeof edge_again);
        again(&mf_edge_form, &edge, &edge_again, sizeof edge);
    }
    if (mf_note_read(&mf_port_form, &port, data, size)) {
        memset(port.why + strlen(port.why), 0, sizeof port.why - strlen(port.why));
        memset(&port_again, 0, sizeof port_again);
        again(&mf_port_form, &port, &port_again, sizeof port);
    }
    return 0;
}
