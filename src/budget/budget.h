/* budget.h - arithmetic of budgets beside the public one.  Internal. */
#ifndef WEFTI_BUDGET_BUDGET_H
#define WEFTI_BUDGET_BUDGET_H

#include <weft/budget.h>

/* Of each thing the smaller, the larger. */
weft_budget wefti_budget_least(const weft_budget *a, const weft_budget *b);
weft_budget wefti_budget_most(const weft_budget *a, const weft_budget *b);
/* That part of `more` which can be added to `to` without loss. */
weft_budget wefti_budget_fitting(const weft_budget *to, const weft_budget *more);

#endif
