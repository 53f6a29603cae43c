/* machine.h - a description of this machine: host, system, processors. */
#ifndef MF_BASE_MACHINE_H
#define MF_BASE_MACHINE_H

#include <stddef.h>

void mf_machine(char *text, size_t size); /* "node7, Linux 6.1.0 x86_64, 8 of AMD EPYC 7543"; cut to size */

#endif
