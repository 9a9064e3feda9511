/* shutdown.c - a request to end that reaches a process wherever it waits.
 *
 * What.   The request is a message, WEFT_MESSAGE_CANCEL, and weft_receive gives it to the process.  A fiber that waits for something else does not
 *         look into its mailbox.  So its word has the bit ASKED while the request is unread, and every wait fails with -ECANCELED: at once, also
 *         if the fiber waits already, and unless it is shielded.  The bit goes when the process has read a request; from then on its waits
 *         are as before, for as long as it is given to end.
 *         A process that traps exits gets the message only, and so does one that has read a request before: it is about to end.
 * Race.   sender: D1 put the request, under the lock      process: F1 nothing in the mailbox that the filter takes
 *                 D2 under the lock: not heard? ASKED              F2 wait: ASKED? fail, unless something has come
 *                 D3 wake the task                                 F3 take and give the lock; look into the mailbox again
 *                                                         reads:   G1 under the lock: heard, ASKED goes
 * Claim.  A receive whose filter takes requests never fails because of one; every other wait does, until G1.
 * Why.    F2 fails after D2, so F3 comes after D1, and finds the request.  D3 changes the word that has the bit: F2 sees the bit, or is woken.
 *         D2 and G1 hold one lock: after G1 nobody sets the bit.
 * Rejected.  To cancel the task: that is for good, and the nurseries of a server that waits in weft_receive would be cancelled before it
 *         has read the request.  To ask only those that do not wait in weft_receive: who was about to would have been asked by chance.
 */
#include "process/process.h"

void wefti_process_interrupt(struct wefti_processes *table, weft_pid pid) {
    struct wefti_process *process = wefti_process_lock(table, pid);
    if (!process)
        return;
    struct weft_task *task = NULL;
    if (process->is_fiber && !process->trap_exit && !process->heard) {
        task = load_own(&process->task); /* alive while the lock is held */
        wefti_word_ref(&task->word);
        wefti_word_ask(&task->word); /* D2 */
    }
    wefti_lock_give(&process->lock);
    if (task)
        wefti_wake(wefti_waker_task(task)); /* D3 */
}

void wefti_process_heard(struct wefti_process *self) {
    wefti_lock_take(&self->lock); /* G1 */
    self->heard = true;
    wefti_word_unask(&load_own(&self->task)->word);
    wefti_lock_give(&self->lock);
}
