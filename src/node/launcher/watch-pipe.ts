// watch-pipe — what the launcher and the processes it started agree on: a pipe for each, with lines both ways.
//
//   to the process      why the job ends, in words      or   "gone:", to the scheduler's: the dead nodes it told of have no process any more
//   to the launcher     "dead:worker 1,worker 3", from the scheduler's process: all nodes that are dead now; "only-dead:…" when nobody else is at work

/** The pipe by which a process learns that its launcher is gone, and from it, in a line, why the job ends. */
export const WATCH_FD = 3;
/** How long a process may take to end when it was asked to. */
export const GRACE_MS = 5000;
/** How long one may take that was declared dead: it has been silent before. */
export const DEAD_GRACE_MS = 1000;
export const GONE_LINE = "gone:";

export type DeadReport = {
  /** All nodes that are dead now. */
  readonly names: readonly string[];
  /** Nobody else is at work: all who live wait for them. */
  readonly isRestDone: boolean;
};

const REPORT = /^(dead|only-dead):(.*)$/;

export function deadReportLine({ names, isRestDone }: DeadReport): string {
  return `${isRestDone ? "only-dead" : "dead"}:${names.join(",")}`;
}

/** Undefined for any other line. */
export function parseDeadReport(line: string): DeadReport | undefined {
  const [, kind, names] = REPORT.exec(line) ?? [];
  return names === undefined ? undefined : { names: names.split(",").filter((name) => name !== ""), isRestDone: kind === "only-dead" };
}
