/* fault.h - fault points inside plat: does the call that is being made fail now? */
#ifndef WEFTI_PLAT_FAULT_H
#define WEFTI_PLAT_FAULT_H

#include <stdbool.h>

/* Armed by wefti_fault_set (plat.h). */
bool wefti_fault_here(void);

#endif
