/* nvml.h - what the driver's management library (NVML) knows of a GPU. It is looked for when a device is opened:
 * neither a build nor a run needs it.
 */
#ifndef MF_CUDA_NVML_H
#define MF_CUDA_NVML_H

struct mf_nvml;

struct mf_nvml *mf_nvml_open(void);    /* NULL: this machine has none that answers */
void mf_nvml_close(struct mf_nvml *n); /* NULL: nothing */

/* Percent of the last second or so during which a kernel of any process ran on a GPU of the runtime; negative: unknown
 * (no NVML, a GPU in parts). */
double mf_nvml_utilisation(const struct mf_nvml *n, int gpu);

#endif
