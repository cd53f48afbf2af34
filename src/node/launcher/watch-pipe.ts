// watch-pipe — what the launcher and the processes it started agree on.

/** The pipe by which a process learns that its launcher is gone, and from it, in a line, why the job ends. */
export const WATCH_FD = 3;
/** How long a process may take to end when it was asked to. */
export const GRACE_MS = 5000;
